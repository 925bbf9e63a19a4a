"""Requests that are broken, ambiguous or made by chance, and clients that are slow, silent or many."""

import json
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers import (
    HEADERS,
    KIND,
    POST,
    SMALL,
    UNREADABLE,
    answers_in,
    is_answered_quickly,
    read_all,
    request,
    wait_until,
)
from workbenches import TOKEN, client_of, write_digits

pytest.importorskip("fastapi")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A client of a small workbench."""
    from handful.project.live import LiveProject

    folder = tmp_path_factory.mktemp("fuzzed")
    write_digits(folder, 20, 2, pictures=False)
    project = LiveProject(folder / "digits.parquet")
    yield client_of(project)
    project.close()


GET = b"GET /api/v1/health HTTP/1.1"
CHUNKED = b"Transfer-Encoding: chunked"
REQUESTS = {
    "many fields with the key": (404, b"GET /?" + b"&".join(b"a%d=1" % i for i in range(2500)) + b" HTTP/1.1", {}),
    "a token that is no text": (401, b"GET /?token=%ff%fe HTTP/1.1", {"key": False}),
    "a star": (400, b"OPTIONS * HTTP/1.1", {}),
    "absolute form of another": (400, b"GET http://evil.example/api/v1/health HTTP/1.1", {}),
    "a line break in the path": (404, b"GET /api/v1/health%0a HTTP/1.1", {}),
    "a line break that would change the kind": (404, b"POST /api/v1/solve%0a HTTP/1.1", {}),
    "a path in percents": (200, b"GET /%61pi/v1/%68ealth HTTP/1.1", {}),
    "no host": (421, b"GET /api/v1/health HTTP/1.0", {"host": False}),
    "two hosts": (400, GET, {"lines": [b"Host: evil.example"]}),
    "version 9": (400, b"GET / HTTP/9.9", {}),
    "head": (405, b"HEAD /api/v1/health HTTP/1.1", {}),
    "a websocket": (200, GET, {"lines": [b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"]}),
    "a forwarded scheme": (200, GET, {"lines": [b"X-Forwarded-Proto: [", b"X-Forwarded-For: ::::[]"]}),
    "a cookie of backslashes": (401, GET, {"key": False, "lines": [b'Cookie: handful_session="' + b"\\" * 9_000]}),
    "a key of no text": (401, GET, {"key": False, "lines": [b"Authorization: Bearer \xff\xfe"]}),
    "another page": (403, GET, {"lines": [b"Sec-Fetch-Site: same-site"]}),
    "a body that is not expected": (400, GET, {"lines": [b"Content-Length: 3"], "body": b"abc"}),
    "two lengths": (400, POST, {"lines": [KIND, b"Content-Length: 2", b"Content-Length: 3"], "body": b"{}"}),
    "a length below zero": (400, POST, {"lines": [KIND, b"Content-Length: -2"], "body": b"{}"}),
    "a length that is huge": (413, POST, {"lines": [KIND, b"Content-Length: 99999999999999999999"]}),
    "a length that is too huge": (400, POST, {"lines": [KIND, b"Content-Length: " + b"9" * 5_000]}),
    "length and chunks": (
        400,
        POST,
        {"lines": [KIND, b"Content-Length: 2", CHUNKED], "body": b"0\r\n\r\n"},
    ),
    "chunked and more": (400, POST, {"lines": [KIND, b"Transfer-Encoding: gzip, chunked"], "body": b"0\r\n\r\n"}),
    "a chunk of a wrong size": (400, POST, {"lines": [KIND, CHUNKED], "body": b"2\r\n{}}}\r\n"}),
    "a name that is half a character": (422, POST, {"lines": [KIND, b"Content-Length: 13"], "body": b'{"\\ud800": 1}'}),
    "a name that clears a screen": (
        422,
        POST,
        {"lines": [KIND, b"Content-Length: 114"], "body": b'{"\\u001b[2J' + b"x" * 100 + b'":1}'},
    ),
}  # fmt: skip


def test_a_strange_request_gets_its_answer(service):
    for name, (status, line, options) in REQUESTS.items():
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


def test_bytes_that_are_no_http_get_an_answer_or_an_end(service):
    hello = b"\x16\x03\x01" + struct.pack(">H", 200) + b"\x01" + bytes(199)
    endless = b"GET / HTTP/1.1\r\nA: " + b"a" * 40_000  # a head that is too long
    for data in (hello, endless, b"\0" * 100_000, b"GET\r\n\r\n", b"\xff" * 40_000, b"SSH-2.0-x\r\n\r\n"):
        answers = answers_in(service.ask(data))
        assert [status for status, _, _ in answers] in ([], [400])
        assert all(len(body) < 300 for _, _, body in answers)


def test_what_follows_a_request_is_no_part_of_it(service):
    """A second request hidden in the body of the first is not answered."""
    hidden = b"GET /api/v1/health HTTP/1.1\r\n" + service.host + service.key + b"\r\n"
    for lines in (
        [b"Content-Length: 5", CHUNKED],
        [b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"],
        [b"Content-Length: 5", b"Content-Length: 0"],
    ):
        data = POST + b"\r\n" + service.host + service.key + KIND + b"\r\n" + b"\r\n".join(lines) + b"\r\n\r\n"
        answers = answers_in(service.ask(data + b"0\r\n\r\n" + hidden))
        assert [answer[0] for answer in answers] == [400], lines


# ---- requests made by chance

ROUTES = ["", "project", "items", "ids", "items/1", "pictures/1", "map", "groups", "histogram", "classes", "labels",
          "accept", "run", "job", "threshold", "undo", "redo", "export", "upload", "classes/1", "groups/1/promote",
          "groups/1/split", "groups/1/join", "check", "compare", "download", "solve"]  # fmt: skip
NAMES = ["host", "cookie", "authorization", "content-type", "origin", "range", "sec-fetch-site", "accept"]
VALUES = [b"application/json", b"multipart/form-data;boundary=x", b"chunked", b"7", b"\xb2", b"bytes=0-5", b"null",
          b"9" * 30, b'handful_session="\\012\\377".x', f"handful_session={TOKEN}".encode()]  # fmt: skip
FIELDS = ["token", "view", "search", "similar", "offset", "limit", "ids", "size", "first", "second", "formats"]
KEYS = ["name", "items", "class", "method", "threshold", "formats", "key", "examples", "other", "\ud800"]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    method=st.sampled_from(["GET", "GET", "POST", "POST", "PATCH", "DELETE", "HEAD", "PUT", "OPTIONS", "x"]),
    path=st.sampled_from(ROUTES) | st.text("abc.%0~;", max_size=12),
    query=st.dictionaries(
        st.sampled_from(FIELDS), st.sampled_from(["", "1", "-1", "1,2", "class:1", "9" * 400]) | st.text(max_size=9)
    ),
    headers=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=2),
    body=st.binary(max_size=60) | st.dictionaries(st.sampled_from(KEYS), values, max_size=4).map(json.dumps),
)
def test_no_request_whatsoever_is_an_error_of_the_server(guarded, method, path, query, headers, body):
    own = {"content-type": "application/json"} if method not in ("GET", "HEAD") else {}
    content = None if method in ("GET", "HEAD") else body
    answer = guarded.request(method, f"/{path}", params=query, headers=own | headers, content=content)
    assert answer.status_code < 500, answer.text
    assert all(len(answer.headers.get_list(name)) == 1 for name in HEADERS)
    if answer.status_code >= 400 and method != "HEAD":
        assert len(answer.json()["error"]) <= 400


# ---- slow, silent and many clients


def half_open(service, count):
    """Connections that send nothing, and others that stop in the head of a request."""
    heads = (b"", b"GET", b"GET / HTTP/1.1\r\nHo", b"GET / HTTP/1.1\r\n" + service.host + b"A: b\r\n")
    return [service.connect(heads[i % len(heads)]) for i in range(count)]


def close_all(connections):
    for connection in connections:
        connection.close()


def test_silent_connections_keep_nobody_out_until_there_are_too_many(service):
    connections = half_open(service, 200)
    try:
        for _ in range(5):
            is_answered_quickly(service)
        connections += half_open(service, 100)
        answer = service.ask(b"GET /api/v1/health HTTP/1.1\r\n" + service.host + service.key + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 503 ")
    finally:
        close_all(connections)

    def is_free():
        with service.open_client() as client:
            return client.get("/health").status_code == 200

    wait_until(is_free, 20)


def test_a_body_that_comes_slowly_is_read_and_keeps_nobody_out(service):
    body = json.dumps(SMALL).encode()
    slow = [service.connect(request(service, POST, KIND, b"Content-Length: %d" % len(body))) for _ in range(10)]
    try:
        with service.open_client() as client:
            for start in range(0, len(body), 40):
                for connection in slow:
                    connection.sendall(body[start : start + 40])
                if start + 40 < len(body):
                    answer = client.post("/solve", json=SMALL)
                    assert answer.status_code == 200, answer.text
        statuses = [answers_in(read_all(connection))[0][0] for connection in slow]
        assert set(statuses) <= {200, 503}  # they came all at once: some may have to come again
        assert statuses.count(200) >= 4
    finally:
        close_all(slow)
