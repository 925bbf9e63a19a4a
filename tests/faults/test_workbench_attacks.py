"""What a hostile web page, file or program may try: each is refused and logged, and changes nothing that is kept."""

import asyncio
import io
import json
import logging
import shutil
import struct
import zlib
from pathlib import Path

import pytest
from workbenches import OWN, PORT, TOKEN, client_of, contents, run, show, write_digits

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from PIL import Image

from handful.workbench import LiveProject
from handful.workbench.server.app import make_app

SECRET = "nobody should read this"
PATHS = ("../secret.txt", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "....//secret", "1/../../x", "%00", "file:///etc/passwd",
         "..\\secret.txt", "1;ls", "~root", "1%0d%0aset-cookie:a=b")  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder of pictures, with a secret beside it and links that lead there."""
    base = tmp_path_factory.mktemp("attacked")
    pictures = base / "pictures"
    truth = write_digits(pictures, 60, 3)
    (pictures / "digits.parquet").unlink()
    (base / "secret.txt").write_text(SECRET)
    (base / "secret").mkdir()
    Image.new("RGB", (20, 20), "red").save(base / "secret" / "photo.png")
    (pictures / "link.png").symlink_to(base / "secret" / "photo.png")
    (pictures / "away").symlink_to(base / "secret")
    (pictures / "page.png").write_bytes(b"<!doctype html><script>alert(1)</script>")
    (pictures / "drawing.png").write_bytes(b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    (pictures / "bomb.png").write_bytes(bomb())
    (pictures / "text.png").symlink_to(base / "secret.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANDFUL_CACHE", str(base / "cache"))
        opened = LiveProject(pictures, backbone="pixels")
        client = client_of(opened)
        assert opened.worker.wait(60)
        show(client, truth, (0, 1))
        run(client, opened)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def asker(project):
    return client_of(project)


@pytest.fixture
def client(project, asker, caplog):
    """A client whose test changes nothing: the database is compared before and after."""
    caplog.set_level(logging.WARNING, "handful.workbench")
    before = contents(project)
    yield asker
    project.worker.wait(60)
    assert contents(project) == before


@pytest.fixture
def refused(client, caplog):
    """Ask, and see that it was refused with a sentence, logged, and without a word of what was asked for."""

    def ask(method, path, status=None, **options):
        caplog.clear()
        answer = client.request(method, path, **options)
        assert 400 <= answer.status_code < 500, (path, answer.status_code, answer.text)
        if status is not None:
            assert answer.status_code == status, answer.text
        assert isinstance(answer.json()["error"], str)
        assert answer.headers["content-type"] == "application/json"
        assert SECRET not in answer.text
        assert [r for r in caplog.records if r.name == "handful.workbench"], "the refusal was not logged"
        return answer

    return ask


def bomb(side=46341):
    """A PNG of two gigapixels: its header says so, and there is hardly more than a header."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 100)), (b"IEND", b"")]
    chunks = (struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def raw(project, method, path, body=(), kind="application/json"):
    """Status and body of a request as it is, chunk by chunk."""
    app, answer, chunks = make_app(project, token=TOKEN, port=PORT), [], iter(body)

    async def receive():
        chunk = next(chunks, None)
        return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}

    async def send(message):
        answer.append(message)

    headers = {"host": f"127.0.0.1:{PORT}", "content-type": kind} | OWN
    if body:
        headers["transfer-encoding"] = "chunked"
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path, "query_string": b"",
        "raw_path": path.encode(), "root_path": "", "server": ("127.0.0.1", PORT), "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    return answer[0]["status"], b"".join(message.get("body", b"") for message in answer[1:])


# ---- who asks, and from where

ROUTES = (
    ("GET", "/project"), ("GET", "/items"), ("GET", "/ids"), ("GET", "/items/1"), ("GET", "/pictures/1"),
    ("GET", "/events"), ("GET", "/map"), ("GET", "/groups"), ("GET", "/histogram"), ("GET", "/openapi.json"),
    ("GET", "/health"), ("GET", f"http://127.0.0.1:{PORT}/"), ("GET", f"http://127.0.0.1:{PORT}/static/main.js"),
    ("POST", "/classes"), ("POST", "/labels"), ("POST", "/accept"), ("POST", "/run"), ("DELETE", "/job"),
    ("POST", "/threshold"), ("POST", "/undo"), ("POST", "/redo"), ("POST", "/export"), ("POST", "/solve"),
    ("DELETE", "/classes/1"), ("PATCH", "/classes/1"), ("POST", "/groups/1/promote"), ("GET", "/check"),
    ("POST", "/check"), ("POST", "/check/use"), ("POST", "/take-back"), ("GET", "/runs"), ("GET", "/compare"),
    ("GET", "/download"),
)  # fmt: skip


def test_nothing_is_answered_without_the_key(refused):
    for key in ("", "Bearer ", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", f"bearer{TOKEN}"):
        for method, path in ROUTES:
            body = {"json": {"name": "x"}} if method in ("POST", "PATCH") else {}
            answer = refused(method, path, 401, headers={"authorization": key}, **body)
            assert "set-cookie" not in answer.headers


def test_a_wrong_key_in_the_address_gives_no_cookie(refused):
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "%00"):
        answer = refused("GET", f"http://127.0.0.1:{PORT}/?token={token}x", 401, headers={"authorization": ""})
        assert "set-cookie" not in answer.headers


def test_the_right_key_in_the_address_gives_a_cookie_that_opens(client):
    answer = client.get(f"http://127.0.0.1:{PORT}/?token={TOKEN}", headers={"authorization": ""})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/;" in cookie
    assert "domain" not in cookie
    client.cookies.clear()
    jar = {"authorization": "", "cookie": f"handful_session={TOKEN}"}
    assert client.get("/project", headers=jar).status_code == 200
    # A cookie knows no ports: that of another workbench is kept beside this one's, not lost
    other = client.get(f"http://127.0.0.1:{PORT}/?token={TOKEN}", headers={"cookie": "handful_session=another"})
    assert f"handful_session={TOKEN}.another;" in other.headers["set-cookie"]
    client.cookies.clear()


ANOTHER_NAME_FOR_THIS_CASES = [
    "evil.example",
    "evil.example:8321",
    "127.0.0.1",
    "127.0.0.1:80",
    "localhost:1",
    "127.0.0.1.evil.example:8321",
    "127.0.0.1:8321@evil.example",
    "0.0.0.0:8321",
    "",
    "[::]:8321",
    "2130706433:8321",
]


def test_another_name_for_this_machine_is_refused(refused):
    for host in ANOTHER_NAME_FOR_THIS_CASES:
        for method, path in (("GET", "/project"), ("POST", "/undo")):
            refused(method, path, 421, headers={"host": host})
        refused("GET", f"http://127.0.0.1:{PORT}/?token={TOKEN}", 421, headers={"host": host, "authorization": ""})


def test_its_own_names_are_taken(client):
    for host in (f"localhost:{PORT}", f"[::1]:{PORT}", f"127.0.0.1:{PORT}"):
        assert client.get("/health", headers={"host": host}).status_code == 200


ANOTHER_PAGE_CANNOT_CHANGE_CASES = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": f"https://127.0.0.1:{PORT}"},
    {"origin": "http://127.0.0.1:9999"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


def test_another_page_cannot_change_anything(refused):
    for headers in ANOTHER_PAGE_CANNOT_CHANGE_CASES:
        for method, path in ROUTES:
            if method != "GET":
                refused(method, path, 403, headers=headers, json={"name": "x"})
        refused("POST", "/upload", 403, headers=headers, files=[("f", ("a.png", b"x"))])


WHAT_A_FORM_COULD_CASES = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonx",
    "",
]


def test_what_a_form_could_send_is_not_read(refused):
    for kind in WHAT_A_FORM_COULD_CASES:
        refused("POST", "/classes", 415, content=b'{"name": "x"}', headers={"content-type": kind})
        refused("POST", "/labels", 415, content=b'{"items": [1], "class": 0}', headers={"content-type": kind})


def test_an_upload_must_be_multipart(refused):
    for kind in ("application/json", "text/plain", "image/png"):
        refused("POST", "/upload", 415, content=b"x", headers={"content-type": kind})
    refused("POST", "/upload", 400, content=b"x", headers={"content-type": "multipart/form-data"})
    refused("POST", "/upload", 400, content=b"garbage", headers={"content-type": "multipart/form-data; boundary=a"})


def test_answers_tie_the_hands_of_the_browser(client):
    for answer in (client.get("/project"), client.get(f"http://127.0.0.1:{PORT}/"), client.get("/nothing"),
                   client.get("/project", headers={"authorization": ""}), client.get("/pictures/5")):  # fmt: skip
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "cross-origin-opener-policy" in answer.headers
        assert "access-control-allow-origin" not in answer.headers


# ---- what is asked for


def test_no_path_is_taken_from_a_request(refused, client):
    for path in PATHS:
        for route in ("/pictures/", "/items/", f"http://127.0.0.1:{PORT}/static/"):
            refused("GET", route + path)
        refused("GET", "/pictures/1", params={"size": path})
        for name in ("view", "ids", "similar", "offset", "limit"):
            refused("GET", "/items", params={name: path})
        for method in ("PATCH", "DELETE"):
            refused(method, f"/classes/{path}", json={"name": "x"} if method == "PATCH" else None)
        refused("POST", f"/groups/{path}/promote", json={"name": "x"})
        refused("POST", "/export", 422, json={"formats": [path]})
        refused("POST", "/labels", 422, json={"items": [path], "class": 0})
        refused("POST", "/run", 400, json={"method": path})
        assert client.get("/items", params={"search": path}).json()["total"] == 0


def test_a_typed_folder_is_made_beside_the_pictures_or_not_at_all(client, project, monkeypatch, tmp_path):
    for path in PATHS:
        monkeypatch.setenv("HOME", str(tmp_path))
        base = project.source.opened.resolve().parent
        before = sorted(base.iterdir())
        answer = client.post("/export", json={"formats": ["csv"], "folder": path})
        if answer.status_code == 200:
            folder = Path(answer.json()["folder"])
            assert (folder.parent, [file.name for file in folder.iterdir()]) == (base, ["labels.csv"])
            shutil.rmtree(folder)
        else:
            assert 400 <= answer.status_code < 500, answer.text
        assert sorted(base.iterdir()) == before
        assert (base / "secret.txt").read_text() == SECRET
        assert not list(tmp_path.iterdir())


def test_the_page_serves_its_own_files_only(project):
    """Asked without a client that would tidy the path."""
    for name in (
        "../app.py",
        "__init__.py",
        ".",
        "..",
        "",
        "index.html/../../app.py",
        "/etc/passwd",
        "main.js/",
        "main.js\0",
    ):
        assert raw(project, "GET", f"/static/{name}")[0] == 404, name
    for path in ("/static/../api/v1/../../etc/passwd", "//etc/passwd", "/api/v1/pictures/../../../../etc/passwd"):
        assert raw(project, "GET", path)[0] == 404, path
    assert raw(project, "GET", "/static/main.js")[0] == 200


def test_links_out_of_the_folder_are_no_items(project, client):
    names = {item["name"] for item in client.get("/items?limit=1000").json()["items"]}
    assert not {"link.png", "text.png", "away/photo.png"} & names
    reasons = {one["name"].split("/")[-1]: one["reason"] for one in client.get("/skipped").json()}
    assert "leads out of the folder" in reasons["link.png"]


def test_a_picture_that_became_a_link_out_is_not_served(project, client, refused):
    item = client.get("/items?search=d0010").json()["items"][0]
    file = project.source.opened / item["name"]
    kept = file.read_bytes()
    assert client.get(f"/pictures/{item['id']}?size=320").status_code == 200
    outside = project.source.opened.parent / "secret" / "photo.png"
    try:
        file.unlink()
        file.symlink_to(outside)
        refused("GET", f"/pictures/{item['id']}?size=320", 404)
        assert client.get(f"/items/{item['id']}").json()["width"] == 0
        file.unlink()
        file.parent.joinpath("to").symlink_to(outside.parent)
        file.symlink_to("to/photo.png")
        refused("GET", f"/pictures/{item['id']}?size=320", 404)
    finally:
        file.unlink()
        file.parent.joinpath("to").unlink(missing_ok=True)
        file.write_bytes(kept)


def test_files_that_only_look_like_pictures_are_skipped(client):
    reasons = {one["name"].split("/")[-1]: one["reason"] for one in client.get("/skipped").json()}
    assert "web page" in reasons["page.png"]
    assert "drawing or a text" in reasons["drawing.png"]
    assert "pixels" in reasons["bomb.png"]


def test_a_picture_that_became_a_page_or_a_bomb_is_not_served(project, client, refused):
    item = client.get("/items?search=d0011").json()["items"][0]
    file = project.source.opened / item["name"]
    kept = file.read_bytes()
    try:
        for content in (
            b"<html><script>alert(1)</script>",
            b"<svg onload='alert(1)'/>",
            bomb(),
            b"",
            b"GIF89a" + b"\xff" * 20,
        ):
            file.write_bytes(content)
            answer = refused("GET", f"/pictures/{item['id']}?size=96", 404)
            assert b"<script" not in answer.content
    finally:
        file.write_bytes(kept)


def test_what_lies_behind_a_picture_does_not_leave(project, client):
    """A JPEG with a script in its comment and a place in its EXIF comes out as pixels."""
    item = client.get("/items?search=d0012").json()["items"][0]
    file = project.source.opened / item["name"]
    kept, stream = file.read_bytes(), io.BytesIO()
    exif = Image.Exif()
    exif[0x010E] = "<script>alert(1)</script>"
    Image.new("RGB", (50, 50), "blue").save(stream, "JPEG", exif=exif, comment=b"<script>alert(2)</script>")
    try:
        file.write_bytes(stream.getvalue() + b"<script>alert(3)</script>")
        answer = client.get(f"/pictures/{item['id']}?size=96")
        assert answer.status_code == 200
        assert b"script" not in answer.content
    finally:
        file.write_bytes(kept)


# ---- how much


def test_numbers_out_of_all_measure_are_refused(refused, client):
    huge = ("9" * 18, "9" * 400, "9" * 5000, "-1", "1e9", "NaN", "0x10", "1_000_0_0_0_0_0_0_0_0_0_0_0_0_0_0_0_0_0_0")
    for number in huge:
        for name in ("offset", "similar"):
            refused("GET", "/items", params={name: number})
        refused("GET", f"/items/{number}")
    for number in ("1001", *huge):
        refused("GET", "/items", params={"limit": number})
    refused("GET", "/items", 422, params={"ids": ",".join(map(str, range(501)))})
    refused("GET", "/items", 422, params={"ids": "1," * 9000})
    refused("GET", "/items", 422, params={"search": "x" * 501})
    assert client.get("/items?offset=999999999").json()["items"] == []
    refused("POST", "/labels", json={"items": [2**70], "class": 0})
    refused("POST", "/labels", json={"items": [1.5], "class": 0})
    refused("POST", "/labels", json={"items": [True], "class": 2**63})
    refused("POST", "/labels", 404, json={"items": [10**9], "class": 0})


def test_a_body_that_is_too_large_is_refused_whether_or_not_it_says_so(refused):
    body = b'{"name": "' + b"x" * (21 * 2**20) + b'"}'
    kind = {"content-type": "application/json"}
    refused("POST", "/classes", 413, content=body, headers=kind)
    refused("POST", "/classes", 413, content=(body[i : i + 2**16] for i in range(0, len(body), 2**16)), headers=kind)
    refused("POST", "/classes", 413, content=b"{}", headers=kind | {"content-length": str(10**12)})


def test_bodies_that_break_parsers_are_refused(refused):
    kind = {"content-type": "application/json"}
    for body in (b"", b"{", b"[" * 200_000, b'{"a":' * 100_000, b"\xff\xfe", b'{"name": ' + b"9" * 100_000 + b"}",
                 b"null", b'"name"', b'{"name": null}', b'{"name": {"$ne": 1}}', b'{"name": "\\ud800"}'):  # fmt: skip
        refused("POST", "/classes", content=body, headers=kind)


def test_an_upload_of_ten_thousand_parts_is_refused_before_it_is_read_whole(project, client):
    part = b'--x\r\ncontent-disposition: form-data; name="f"; filename="%d.png"\r\n\r\nsome\r\n'
    parts = (part % i for i in range(10_000))
    status, body = raw(project, "POST", "/api/v1/upload", parts, kind="multipart/form-data; boundary=x")
    assert status == 413
    assert "200" in json.loads(body)["error"]
    assert sum(1 for _ in parts) > 9_700  # they are left unread
    assert list(project.source.uploads.iterdir()) == []  # and nothing lies about


def test_a_file_that_is_too_large_is_refused_as_it_comes(refused, project):
    def file():
        yield b'--x\r\ncontent-disposition: form-data; name="f"; filename="a.png"\r\n\r\n'
        for _ in range(51):
            yield b"\0" * 2**20
        yield b"\r\n--x--\r\n"

    refused("POST", "/upload", 413, content=file(), headers={"content-type": "multipart/form-data; boundary=x"})
    long = b"--x\r\n" + b"a" * 10_000 + b": b\r\n\r\nx\r\n--x--\r\n"
    refused("POST", "/upload", content=long, headers={"content-type": "multipart/form-data; boundary=x"})
    assert list(project.source.uploads.iterdir()) == []


UPLOADS_THAT_ARE_NO_CASES = [b"<html><script>1</script>", b"<svg onload=x>", bomb(), b"", b"MZ\x90", b"%PDF-1.4"]


def test_uploads_that_are_no_pictures_are_refused(refused, project):
    for data in UPLOADS_THAT_ARE_NO_CASES:
        refused("POST", "/upload", 422, files=[("f", ("a.png", data))])
        assert list(project.source.uploads.iterdir()) == []


def test_the_name_of_an_upload_is_no_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    write_digits(tmp_path / "pictures", 5, 1)
    project = LiveProject(tmp_path / "pictures", backbone="pixels")
    client = client_of(project)
    data = (tmp_path / "pictures" / "d0000.png").read_bytes()
    names = ["../../out.png", "/etc/cron.d/x", "..\\..\\out.png", ".hidden.png", "a\x00b.png", "<b>x</b>.html", "",
             "x" * 5000, "..", "con\n.png"]  # fmt: skip
    before = {path for path in tmp_path.rglob("*") if "uploads" not in path.parts}
    for name in names:
        body = b'--x\r\ncontent-disposition: form-data; name="f"; filename="' + name.encode() + b'"\r\n\r\n' + data
        kind = {"content-type": "multipart/form-data; boundary=x"}
        answer = client.post("/upload", content=body + b"\r\n--x--\r\n", headers=kind)
        assert answer.status_code in (200, 400), (name, answer.text)
    assert project.worker.wait(60)
    uploads = [path.name for path in project.source.uploads.iterdir()]
    assert len(uploads) >= 7
    assert all(name.endswith(".png") and name[0] not in ".-" and "<" not in name for name in uploads)
    after = {path for path in tmp_path.rglob("*") if "uploads" not in path.parts and "cache" not in path.parts}
    assert {
        path for path in after - before if path.is_file() and path.suffix not in (".sqlite-wal", ".sqlite-shm")
    } == set()
    project.close()


# ---- what is written


def test_markup_in_names_is_text(tmp_path):
    write_digits(tmp_path, 20, 2, pictures=False)
    project = LiveProject(tmp_path / "digits.parquet")
    client = client_of(project)
    names = [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "'; DROP TABLE classes; --",
        "{{7*7}}",
        "é 名 👍",
    ]
    for name in names:
        answer = client.post("/classes", json={"name": name})
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["name"] == name
    assert [c["name"] for c in client.get("/classes").json()] == names
    assert [row[1] for row in contents(project)["classes"]] == names
    for name in ("a\nb", "a\x00b", "\x1b[31mred", "x" * 201, "\u202e", " ", "a\u2028b"):
        assert client.post("/classes", json={"name": name}).status_code in (400, 422), repr(name)
    assert [row[1] for row in contents(project)["classes"]] == names
    project.close()


SQL_IN_A_SEARCH_CASES = [
    "' OR 1=1 --",
    "%' UNION SELECT * FROM meta --",
    "'; DROP TABLE labels; --",
    "%",
    "_",
    "*",
    "\\",
]


def test_sql_in_a_search_is_a_search(client):
    for text in SQL_IN_A_SEARCH_CASES:
        answer = client.get("/items", params={"search": text})
        assert answer.status_code == 200
        assert answer.json()["total"] == 0


VIEWS_THAT_ARE_NONE_CASES = [
    "class:1 OR 1=1",
    "class:1;DROP",
    "class:",
    "group:-1",
    "nonsense",
    "class:9999",
    "group:99",
]


def test_views_that_are_none_are_refused(refused):
    for view in VIEWS_THAT_ARE_NONE_CASES:
        refused("GET", "/ids", params={"view": view})


# ---- solve


SOLVE_REFUSES_WHAT_IS_CASES = ["NaN", "Infinity", "-Infinity", "1e999", "null", '"x"', "[1]", "true1", "1e308"]


def test_solve_refuses_what_is_no_number(refused):
    for value in SOLVE_REFUSES_WHAT_IS_CASES:
        body = f'{{"support": [[0, {value}], [1, 0]], "labels": ["a", "b"], "query": [[0, 1]]}}'
        refused("POST", "/solve", content=body, headers={"content-type": "application/json"})
        body = f'{{"support": [[0, 1], [1, 0]], "labels": ["a", "b"], "query": [[0, {value}]]}}'
        refused("POST", "/solve", content=body, headers={"content-type": "application/json"})


def test_solve_refuses_what_does_not_fit_together(refused):
    good = {"support": [[0, 1], [1, 0]], "labels": ["a", "b"], "query": [[0, 1]]}
    for wrong in ({"support": []}, {"query": []}, {"query": [[]]}, {"labels": ["a"]}, {"query": [[1, 2, 3]]},
                  {"support": [[0, 1], [1]]}, {"method": "nope"}, {"outlier_share": 2}, {"labels": ["a", None]},
                  {"labels": ["a", "unknown"]}, {"method": "eol", "more": 1}, {"outlier_share": "most"},
                  {"method": "../eol"}):  # fmt: skip
        refused("POST", "/solve", json=good | wrong)
    refused(
        "POST",
        "/solve",
        content=json.dumps(good | {"outlier_share": float("nan")}),
        headers={"content-type": "application/json"},
    )
    refused("POST", "/threshold", content='{"threshold": NaN}', headers={"content-type": "application/json"})
    refused("POST", "/threshold", content='{"threshold": Infinity}', headers={"content-type": "application/json"})


def test_requests_by_other_methods_are_refused(refused):
    for method in ("PUT", "OPTIONS", "TRACE", "PROPFIND"):
        refused(method, "/project", headers={"content-type": "application/json"})
    refused("GET", "/labels")
    refused("GET", "/docs", 404)
