"""What a hostile web page, file or program may try: each is refused and logged, and changes nothing that is kept."""

import io
import json
import logging
import struct
import zlib

import pytest
from servers import KIND as JSON_KIND
from servers import POST, UNREADABLE, answers_in, request
from workbenches import PORT, TOKEN, client_of, contents, opened, run, show, write_digits

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from PIL import Image

from handful.project.live import LiveProject

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


HOME = f"http://127.0.0.1:{PORT}"
GETS = ["/project", "/items", "/ids", "/items/1", "/pictures/1", "/events", "/map", "/groups", "/histogram", "/check",
        "/openapi.json", "/health", "/runs", "/compare", "/download", f"{HOME}/", f"{HOME}/static/main.js"]  # fmt: skip
POSTS = ["/classes", "/labels", "/accept", "/run", "/threshold", "/undo", "/redo", "/export", "/solve", "/check",
         "/groups/1/promote", "/check/use", "/take-back"]  # fmt: skip
ROUTES = [*(("GET", path) for path in GETS), *(("POST", path) for path in POSTS)]
ROUTES += [("DELETE", "/job"), ("DELETE", "/classes/1"), ("PATCH", "/classes/1")]


# ---- who asks, and from where


def test_nothing_is_answered_without_the_key(refused):
    for key in ("", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", f"bearer{TOKEN}"):
        for method, path in ROUTES if key == "" else ROUTES[:1]:
            body = {"json": {"name": "x"}} if method in ("POST", "PATCH") else {}
            answer = refused(method, path, 401, headers={"authorization": key}, **body)
            assert "set-cookie" not in answer.headers
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "%00"):
        answer = refused("GET", f"{HOME}/?token={token}x", 401, headers={"authorization": ""})
        assert "set-cookie" not in answer.headers


def test_the_right_key_in_the_address_gives_a_cookie_that_opens(client):
    answer = client.get(f"{HOME}/?token={TOKEN}", headers={"authorization": ""})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/;"))
    assert "domain" not in cookie
    client.cookies.clear()
    # A browser sends the cookies of all ports: that of another workbench opens nothing here, and is not replaced
    for name, status in ((f"handful_session_{PORT}", 200), ("handful_session_9999", 401)):
        jar = {"authorization": "", "cookie": f"handful_session_1=x; {name}={TOKEN}"}
        assert client.get("/project", headers=jar).status_code == status
    assert f"handful_session_{PORT}={TOKEN};" in answer.headers["set-cookie"]


def test_another_name_for_this_machine_is_refused(refused, client):
    for host in (
        "evil.example", "evil.example:8321", "127.0.0.1", "127.0.0.1:80", "localhost:1", "127.0.0.1.evil.example:8321",
        "127.0.0.1:8321@evil.example", "0.0.0.0:8321", "", "[::]:8321", "2130706433:8321",
    ):  # fmt: skip
        for method, path in (("GET", "/project"), ("POST", "/undo")):
            refused(method, path, 421, headers={"host": host})
        refused("GET", f"{HOME}/?token={TOKEN}", 421, headers={"host": host, "authorization": ""})
    for host in (f"localhost:{PORT}", f"[::1]:{PORT}", f"127.0.0.1:{PORT}"):
        assert client.get("/health", headers={"host": host}).status_code == 200


def test_another_page_cannot_change_anything_nor_read_a_text(refused):
    for headers in (
        {"origin": "https://evil.example"}, {"origin": "null"}, {"origin": f"https://127.0.0.1:{PORT}"},
        {"origin": "http://127.0.0.1:9999"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
    ):  # fmt: skip
        for method, path in ROUTES:
            if path.startswith("/") and path != "/":
                refused(method, path, 403, headers=headers, **({} if method == "GET" else {"json": {"name": "x"}}))
        refused("POST", "/upload", 403, headers=headers, files=[("f", ("a.png", b"x"))])


def test_what_a_form_could_send_is_not_read(refused):
    form = ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x")
    for kind in ("text/plain", *form, "application/jsonx", ""):
        refused("POST", "/classes", 415, content=b'{"name": "x"}', headers={"content-type": kind})
    for kind, status in (("application/json", 415), ("image/png", 415), ("multipart/form-data", 400)):
        refused("POST", "/upload", status, content=b"x", headers={"content-type": kind})
    refused("POST", "/upload", 400, content=b"garbage", headers={"content-type": "multipart/form-data; boundary=a"})
    for method in ("PUT", "OPTIONS", "TRACE", "PROPFIND"):
        refused(method, "/project", headers={"content-type": "application/json"})
    refused("GET", "/labels")
    refused("GET", "/docs", 404)


def test_answers_tie_the_hands_of_the_browser(client):
    for answer in (client.get("/project"), client.get(f"{HOME}/"), client.get("/nothing"),
                   client.get("/project", headers={"authorization": ""}), client.get("/pictures/5")):  # fmt: skip
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert (policy["script-src"], policy["frame-ancestors"]) == ("'self'", "'none'")
        assert policy["require-trusted-types-for"] == "'script'"
        for name, value in {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
                            "cross-origin-resource-policy": "same-origin"}.items():  # fmt: skip
            assert answer.headers[name] == value
        assert "access-control-allow-origin" not in answer.headers


# ---- what is asked for


def test_no_path_is_taken_from_a_request(refused, client):
    for path in PATHS:
        for route in ("/pictures/", "/items/", f"{HOME}/static/"):
            refused("GET", route + path)
        refused("GET", "/pictures/1", params={"size": path})
        for name in ("view", "ids", "similar", "offset", "limit"):
            refused("GET", "/items", params={name: path})
        refused("DELETE", f"/classes/{path}")
        refused("POST", f"/groups/{path}/promote", json={"name": "x"})
        refused("POST", "/export", 422, json={"formats": [path]})
        refused("POST", "/labels", 422, json={"items": [path], "class": 0})
        refused("POST", "/run", 400, json={"method": path})
        assert client.get("/items", params={"search": path}).json()["total"] == 0


def test_files_that_only_look_like_pictures_and_links_out_are_no_items(client):
    names = {item["name"] for item in client.get("/items?limit=1000").json()["items"]}
    assert not {"link.png", "text.png", "away/photo.png"} & names
    reasons = {one["name"].split("/")[-1]: one["reason"] for one in client.get("/skipped").json()}
    for name, reason in {"link": "leads out of the folder", "page": "web page", "drawing": "drawing or a text",
                         "bomb": "pixels"}.items():  # fmt: skip
        assert reason in reasons[f"{name}.png"]


def test_a_picture_that_became_something_else_is_not_served(project, client, refused):
    item = client.get("/items?search=d0010").json()["items"][0]
    file, address = project.source.opened / item["name"], f"/pictures/{item['id']}?size=320"
    kept, stream, exif = file.read_bytes(), io.BytesIO(), Image.Exif()
    assert client.get(address).status_code == 200
    exif[0x010E] = "<script>alert(1)</script>"
    Image.new("RGB", (50, 50), "blue").save(stream, "JPEG", exif=exif, comment=b"<script>alert(2)</script>")
    try:
        for content in (
            b"<html><script>alert(1)</script>",
            b"<svg onload='x'/>",
            bomb(),
            b"",
            b"GIF89a" + b"\xff" * 20,
        ):
            file.write_bytes(content)
            assert b"<script" not in refused("GET", address, 404).content
        file.write_bytes(stream.getvalue() + b"<script>alert(3)</script>")  # it comes out as pixels
        answer = client.get(address)
        assert (answer.status_code, b"script" in answer.content) == (200, False)
        file.unlink()
        file.symlink_to(project.source.opened.parent / "secret" / "photo.png")
        refused("GET", address, 404)
        assert client.get(f"/items/{item['id']}").json()["width"] == 0
    finally:
        file.unlink()
        file.write_bytes(kept)


# ---- numbers, texts and bodies out of all measure

HUGE = ("9" * 18, "9" * 5000, "-1", "1e9", "NaN")
KIND = {"content-type": "application/json"}
TASK = {"support": [[0, 1], [1, 0]], "labels": ["a", "b"], "query": [[0, 1]]}
REFUSED = [  # method, path, status or None, what is sent
    *(("GET", "/items", None, {"params": {name: n}}) for n in HUGE for name in ("offset", "similar", "limit")),
    *(("GET", f"/items/{n}", None, {}) for n in HUGE),
    *(("GET", "/items", 422, {"params": one}) for one in (
        {"limit": "1001"}, {"ids": ",".join(map(str, range(501)))}, {"search": "x" * 501})),
    *(("GET", "/ids", None, {"params": {"view": view}}) for view in (
        "class:1 OR 1=1", "class:", "class:0", "group:-1", "nonsense", "class:9999", "group:99", "moved:1",
        "moved:1:2:3")),
    *(("POST", "/labels", 422, {"json": {"items": items, "class": code}}) for items, code in (
        ([2**70], 0), ([1.5], 0), ([1], 2**63))),
    ("POST", "/labels", 404, {"json": {"items": [10**9], "class": 0}}),
    *(("POST", "/classes", None, {"content": body, "headers": KIND}) for body in (
        b"", b"{", b"[" * 200_000, b"\xff\xfe", b"null", b'{"name": {"$ne": 1}}', b'{"name": "\\ud800"}')),
    *(("POST", "/threshold", None, {"content": content, "headers": KIND}) for content in (
        b'{"threshold": NaN}', b'{"threshold": Infinity}')),
    *(("POST", "/solve", None, {"content": json.dumps(TASK).replace("[0, 1]", f"[0, {n}]", k), "headers": KIND})
      for n in ("NaN", "1e999", "null", '"x"', "[1]") for k in (1, 2)),
    *(("POST", "/solve", None, {"json": TASK | wrong}) for wrong in (
        {"support": []}, {"query": []}, {"query": [[]]}, {"labels": ["a"]}, {"query": [[1, 2, 3]]},
        {"support": [[0, 1], [1]]}, {"method": "../eol"}, {"outlier_share": 2}, {"labels": ["a", "unknown"]},
        {"method": "eol", "more": 1})),
    *(("POST", "/upload", 422, {"files": [("f", ("a.png", data))]}) for data in (b"<svg onload=x>", bomb(), b"")),
]  # fmt: skip


def test_what_is_out_of_all_measure_is_refused(refused, client, project):
    for method, path, status, sent in REFUSED:
        refused(method, path, status, **sent)
    body = b'{"name": "' + b"x" * (3 * 2**20) + b'"}'
    for content in (body, (body[i : i + 2**16] for i in range(0, len(body), 2**16))):  # whether or not it says so
        refused("POST", "/classes", 413, content=content, headers=KIND)
    million = refused("POST", "/labels", 422, json={"items": ["x"] * 900_000, "class": 0})
    assert len(million.text) < 200  # one error, not a million
    for text in ("' OR 1=1 --", "%' UNION SELECT * FROM meta --", "'; DROP TABLE events; --", "%", "_", "*", "\\"):
        answer = client.get("/items", params={"search": text})
        assert (answer.status_code, answer.json()["total"]) == (200, 0), text
    assert client.get("/items?offset=999999999").json()["items"] == []
    assert list(project.source.uploads.iterdir()) == []


def test_uploads_that_are_too_many_or_too_large_leave_nothing(refused, project):
    part = b'--x\r\ncontent-disposition: form-data; name="f"; filename="%d.png"\r\n\r\nsome\r\n'
    form = {"content-type": "multipart/form-data; boundary=x"}
    many = refused("POST", "/upload", 400, content=b"".join(part % i for i in range(10_000)), headers=form)
    assert "number of files is 200" in many.json()["error"]
    large = part % 1 + b"\0" * (51 * 2**20) + b"\r\n--x--\r\n"
    refused("POST", "/upload", 413, content=large, headers=form)
    refused("POST", "/upload", content=b"--x\r\n" + b"a" * 10_000 + b": b\r\n\r\nx\r\n--x--\r\n", headers=form)
    assert list(project.source.uploads.iterdir()) == []


def test_the_name_of_an_upload_is_no_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    write_digits(tmp_path / "pictures", 5, 1)
    project, client = opened(tmp_path / "pictures", backbone="pixels")
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
    assert {"out.png", "out (2).png", "x.png", "hidden.png"} <= {*uploads}  # of a path only the name of the file
    assert all(name.endswith(".png") and name[0] not in ".-" and "<" not in name for name in uploads)
    after = {path for path in tmp_path.rglob("*") if not {"uploads", "cache"} & {*path.parts}}
    assert {path for path in after - before if path.is_file() and not path.name.startswith("project.sqlite-")} == set()
    project.close()


# ---- requests as bytes

HEALTH = b"GET /api/v1/health HTTP/1.1"
STRANGE = {
    "a token that is no text": (401, b"GET /?token=%ff%fe HTTP/1.1", {"key": False}),
    "no host": (421, b"GET /api/v1/health HTTP/1.0", {"host": False}),
    "two hosts": (400, HEALTH, {"lines": [b"Host: evil.example"]}),
    "head": (405, b"HEAD /api/v1/health HTTP/1.1", {}),
    "a key of no text": (401, HEALTH, {"key": False, "lines": [b"Authorization: Bearer \xff\xfe"]}),
    "another page": (403, HEALTH, {"lines": [b"Sec-Fetch-Site: same-site"]}),
    "a length that is huge": (413, POST, {"lines": [JSON_KIND, b"Content-Length: 99999999999999999999"]}),
    "a name that clears a screen": (
        422, POST, {"lines": [JSON_KIND, b"Content-Length: 114"], "body": b'{"\\u001b[2J' + b"x" * 100 + b'":1}'},
    ),
}  # fmt: skip


def test_a_strange_request_gets_its_answer(service):
    for name, (status, line, options) in STRANGE.items():
        options = dict(options)
        lines = options.pop("lines", [])
        answers = answers_in(service.ask(request(service, line, *lines, **options)))
        assert [answer[0] for answer in answers] == [status], (name, answers)
        _, headers, body = answers[0]
        assert len(body) < 600, name
        if status >= 400 and line[:4] != b"HEAD" and UNREADABLE not in body:
            error = json.loads(body)["error"]
            assert error.isprintable(), name
            assert headers["content-type"] == "application/json", name
