"""Requests that are broken, ambiguous or made by chance: never an error of the server, always its headers."""

import asyncio
import json
import random
import selectors
import struct
import time
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers import HASTY, HEADERS, KIND, POST, Service, answers_in, is_answered_quickly, request
from workbenches import PORT, TOKEN, write_digits

pytest.importorskip("fastapi")


@pytest.fixture(scope="module")
def service():
    """With the limits that users get."""
    started = Service()
    yield started
    started.close()


@pytest.fixture(scope="module")
def hasty():
    """With limits of a second."""
    started = Service(**HASTY)
    yield started
    started.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    from handful.workbench import LiveProject
    from handful.workbench.server.app import make_app

    folder = tmp_path_factory.mktemp("fuzzed")
    write_digits(folder, 20, 2, pictures=False)
    project = LiveProject(folder / "digits.parquet")
    yield make_app(project, token=TOKEN, port=PORT)
    project.close()


@pytest.fixture(scope="module")
def loop():
    started = asyncio.new_event_loop()
    yield started
    started.close()


GET = b"GET /api/v1/health HTTP/1.1"
CHUNKED = b"Transfer-Encoding: chunked"
REQUESTS = {
    "twenty-five fields": (401, b"GET /?" + b"&".join(b"a%d=1" % i for i in range(25)) + b" HTTP/1.1", {"key": False}),
    "many fields with the key": (404, b"GET /?" + b"&".join(b"a%d=1" % i for i in range(2500)) + b" HTTP/1.1", {}),
    "a query that is no text": (404, b"GET /?%ff%00=%zz&&&=%= HTTP/1.1", {}),
    "a token that is no text": (401, b"GET /?token=%ff%fe HTTP/1.1", {"key": False}),
    "two tokens": (401, b"GET /?token=a&token=b HTTP/1.1", {"key": False}),
    "an address in brackets": (400, b"GET [x HTTP/1.1", {}),
    "a star": (400, b"OPTIONS * HTTP/1.1", {}),
    "absolute form": (400, b"GET http://127.0.0.1/api/v1/health HTTP/1.1", {}),
    "absolute form of another": (400, b"GET http://evil.example/api/v1/health HTTP/1.1", {}),
    "authority form": (400, b"CONNECT 127.0.0.1:80 HTTP/1.1", {}),
    "connect": (415, b"CONNECT /api/v1/health HTTP/1.1", {"lines": [b"Content-Length: 1"], "body": b"x"}),
    "a line break in the path": (404, b"GET /api/v1/health%0a HTTP/1.1", {}),
    "a line break that would change the kind": (404, b"POST /api/v1/solve%0a HTTP/1.1", {}),
    "a path of dots": (404, b"GET /api/v1/../../api/v1/health HTTP/1.1", {}),
    "a path in percents": (200, b"GET /%61pi/v1/%68ealth HTTP/1.1", {}),
    "a path in percents twice": (404, b"GET /%2561pi/v1/health HTTP/1.1", {}),
    "a path of no text": (404, b"GET /%ff%fe HTTP/1.1", {}),
    "a path of two slashes": (404, b"GET //api/v1/health HTTP/1.1", {}),
    "a long path": (404, b"GET /" + b"a" * 10_000 + b" HTTP/1.1", {}),
    "a very long path": (400, b"GET /" + b"a" * 60_000 + b" HTTP/1.1", {}),
    "many headers": (400, GET, {"lines": [b"a:"] * 16_000}),
    "a long header": (400, GET, {"lines": [b"a: " + b"b" * 60_000]}),
    "no host": (421, b"GET /api/v1/health HTTP/1.0", {"host": False}),
    "no host in 1.1": (400, GET, {"host": False}),
    "two hosts": (400, GET, {"lines": [b"Host: evil.example"]}),
    "version 0.9": (400, b"GET /api/v1/health", {"host": False, "key": False}),
    "version 2": (400, b"PRI * HTTP/2.0", {"host": False, "key": False}),
    "version 9": (400, b"GET / HTTP/9.9", {}),
    "head": (405, b"HEAD /api/v1/health HTTP/1.1", {}),
    "trace": (405, b"TRACE /api/v1/health HTTP/1.1", {}),
    "small letters": (405, b"get /api/v1/health HTTP/1.1", {}),
    "a long method": (405, b"A" * 5_000 + b" /api/v1/health HTTP/1.1", {}),
    "a websocket": (200, GET, {"lines": [b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"]}),
    "an upgrade": (200, GET, {"lines": [b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c"]}),
    "a range": (200, GET, {"lines": [b"Range: bytes=0-0,1-1,2-2,-9999999999"]}),
    "a forwarded scheme": (200, GET, {"lines": [b"X-Forwarded-Proto: [", b"X-Forwarded-For: ::::[]"]}),
    "a cookie of backslashes": (401, GET, {"key": False, "lines": [b'Cookie: handful_session="' + b"\\" * 9_000]}),
    "a cookie of no form": (401, GET, {"key": False, "lines": [b"Cookie: ;;==;\xff=\xfe; handful_session"]}),
    "a key of no text": (401, GET, {"key": False, "lines": [b"Authorization: Bearer \xff\xfe"]}),
    "a control character": (400, GET, {"lines": [b"A: b\x00c"]}),
    "a folded header": (200, GET, {"lines": [b"A: b", b" c"]}),
    "a space before the colon": (400, GET, {"lines": [b"Content-Length : 5"]}),
    "another page": (403, GET, {"lines": [b"Sec-Fetch-Site: same-site"]}),
    "a body that is not expected": (400, GET, {"lines": [b"Content-Length: 3"], "body": b"abc"}),
    "two lengths": (400, POST, {"lines": [KIND, b"Content-Length: 2", b"Content-Length: 3"], "body": b"{}"}),
    "a list of lengths": (422, POST, {"lines": [KIND, b"Content-Length: 2, 2"], "body": b"{}"}),
    "a length below zero": (400, POST, {"lines": [KIND, b"Content-Length: -2"], "body": b"{}"}),
    "a length with a sign": (400, POST, {"lines": [KIND, b"Content-Length: +2"], "body": b"{}"}),
    "a length that is huge": (413, POST, {"lines": [KIND, b"Content-Length: 99999999999999999999"]}),
    "a length that is too huge": (400, POST, {"lines": [KIND, b"Content-Length: " + b"9" * 5_000]}),
    "length and chunks": (
        400,
        POST,
        {"lines": [KIND, b"Content-Length: 2", CHUNKED], "body": b"0\r\n\r\n"},
    ),
    "chunked twice": (400, POST, {"lines": [KIND, CHUNKED, CHUNKED], "body": b"0\r\n\r\n"}),
    "chunked and more": (400, POST, {"lines": [KIND, b"Transfer-Encoding: gzip, chunked"], "body": b"0\r\n\r\n"}),
    "chunked in disguise": (400, POST, {"lines": [KIND, b"Transfer-Encoding: xchunked"], "body": b"0\r\n\r\n"}),
    "a chunk of a wrong size": (400, POST, {"lines": [KIND, CHUNKED], "body": b"2\r\n{}}}\r\n"}),
    "a chunk of a size below zero": (400, POST, {"lines": [KIND, CHUNKED], "body": b"-1\r\n{}\r\n"}),
    "a chunk of a huge size": (400, POST, {"lines": [KIND, CHUNKED], "body": b"f" * 30 + b"\r\n"}),
    "chunks of one byte": (
        400,
        POST,
        {"lines": [KIND, CHUNKED], "body": b"1\r\n \r\n" * 5_000 + b"0\r\n\r\n"},
    ),
    "two kinds": (415, POST, {"lines": [KIND, b"Content-Type: text/plain", b"Content-Length: 2"], "body": b"{}"}),
    "a name that is half a character": (422, POST, {"lines": [KIND, b"Content-Length: 13"], "body": b'{"\\ud800": 1}'}),
    "a name that clears a screen": (
        422,
        POST,
        {"lines": [KIND, b"Content-Length: 114"], "body": b'{"\\u001b[2J' + b"x" * 100 + b'":1}'},
    ),
}  # fmt: skip


def test_a_strange_request_gets_its_answer(service):
    for name in REQUESTS:
        status, line, options = REQUESTS[name]
        options = dict(options)
        lines = options.pop("lines", [])
        answers = answers_in(service.ask(request(service, line, *lines, **options)))
        assert [answer[0] for answer in answers] == [status], answers
        _, headers, body = answers[0]
        assert len(body) < 600
        if status >= 400 and line[:4] != b"HEAD":
            error = json.loads(body)["error"]
            assert error.isprintable()
            assert headers["content-type"] == "application/json"


def test_bytes_that_are_no_http_get_an_answer_or_an_end(service):
    hello = b"\x16\x03\x01" + struct.pack(">H", 200) + b"\x01" + bytes(199)
    for data in (hello, b"\r\n" * 1000, b"\0" * 100_000, b"GET\r\n\r\n", b"\xff" * 40_000, b"SSH-2.0-x\r\n\r\n"):
        for status, _, body in answers_in(service.ask(data)):
            assert status == 400
            assert len(body) < 300


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


# ---- thousands of requests made by chance


METHODS = [b"GET", b"POST", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE", b"get", b"CONNECT", b"", b"G\x00T"]
TARGETS = [
    b"/", b"/api/v1/solve", b"/api/v1/health", b"/api/v1/openapi.json", b"/?token=x", b"//", b"[", b"*", b"/%00",
    b"http://a/", b"/api/v1/%73olve", b"/" + b"&a=1" * 30, b"/?" + b"a=1&" * 30, b"/;a?b#c", b"\xff", b"",
]  # fmt: skip
VERSIONS = [b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"http/1.1", b""]
VALUES = [
    b"0", b"2", b"5", b"-1", b"chunked", b"close", b"keep-alive", b"100-continue", b"gzip", b"*/*", b"\xff\xfe", b"",
    b"application/json", b"multipart/form-data; boundary=a", b'handful_session="\\1', b"bytes=0-", b"evil:1",
]  # fmt: skip
NAMES = [
    b"Content-Length", b"Transfer-Encoding", b"Connection", b"Expect", b"Cookie", b"Range", b"Content-Type",
    b"Origin", b"Upgrade", b"Host", b"Authorization", b"X-Forwarded-Proto", b"A b", b"", b"\xff",
]  # fmt: skip
BODIES = [b"", b"{}", b"5\r\nhello\r\n0\r\n\r\n", b"0\r\n\r\n", b"zz\r\n", b'{"query": [[1]]}', b"[" * 500, b"\0" * 99]


def made_by_chance(service, rng):
    line = b" ".join(rng.choice(choices) for choices in (METHODS, TARGETS, VERSIONS))
    own = [service.host.strip()] * (rng.random() < 0.9) + [service.key.strip()] * (rng.random() < 0.7)
    lines = own + [rng.choice(NAMES) + b": " + rng.choice(VALUES) for _ in range(rng.randrange(5))]
    rng.shuffle(lines)
    data = bytearray(b"\r\n".join([line, *lines]) + b"\r\n\r\n" + rng.choice(BODIES))
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        at = rng.randrange(len(data))
        if rng.random() < 0.5:
            data[at] = rng.randrange(256)
        else:
            del data[at : at + rng.randrange(20)]
            data = data or bytearray(b"x")
    return bytes(data)


def ask_all(service, requests):
    """What comes back for each, all at once."""
    received, waiting = [b""] * len(requests), selectors.DefaultSelector()
    for i, data in enumerate(requests):
        waiting.register(service.connect(data), selectors.EVENT_READ, i)
    end = time.monotonic() + 30
    while waiting.get_map():
        assert time.monotonic() < end, "the server left connections open"
        for key, _ in waiting.select(1.0):
            try:
                part = key.fileobj.recv(2**16)
            except ConnectionResetError:
                part = b""
            received[key.data] += part
            if not part:
                waiting.unregister(key.fileobj)
                key.fileobj.close()
    return received


def test_a_thousand_broken_requests_get_answers_with_headers(hasty):
    rng, count = random.Random(11), 0
    for _ in range(8):
        requests = [made_by_chance(hasty, rng) for _ in range(190)]
        for data, answer in zip(requests, ask_all(hasty, requests), strict=True):
            for status, _, body in answers_in(answer):
                count += 1
                assert status != 500, data
                if status >= 400:
                    assert len(body) < 600, data
    assert count > 1000
    is_answered_quickly(hasty)


WORDS = (
    "project items ids items/1 pictures/1 map groups histogram events health classes labels accept run job threshold "
    "undo redo export upload classes/1 openapi.json groups/1/promote groups/1/split "
    "groups/1/join"
)
routes = st.sampled_from(["/", "/static/main.js", "/static/", *("/api/v1/" + word for word in WORDS.split())])
queries = st.one_of(
    st.binary(max_size=80),
    st.lists(
        st.tuples(
            st.sampled_from([b"token", b"view", b"search", b"similar", b"offset", b"limit", b"ids", b"size", b"a"]),
            st.one_of(
                st.sampled_from([b"", b"1", b"-1", b"1,2", b"class:1", b"9" * 400, TOKEN.encode()]),
                st.binary(max_size=9),
            ),
        ).map(b"=".join),
        max_size=40,
    ).map(b"&".join),
)
WORDS = (
    b"host cookie authorization content-length content-type transfer-encoding origin range sec-fetch-site expect "
    b"x-forwarded-for accept if-none-match"
)
header_names = st.sampled_from(WORDS.split())
WORDS = (
    b'application/json multipart/form-data;boundary=x chunked 0 7 \xb2 handful_session="\\012\\377".x bytes=0-5 null'
)
header_values = st.one_of(
    st.binary(max_size=40), st.sampled_from([*WORDS.split(), b"9" * 30, f"handful_session={TOKEN}".encode()])
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)
bodies = st.one_of(
    st.binary(max_size=60),
    st.dictionaries(
        st.sampled_from(["name", "items", "class", "method", "threshold", "formats", "key", "examples", "\ud800"]),
        json_values,
        max_size=4,
    ).map(lambda value: json.dumps(value).encode()),
)


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    method=st.sampled_from(["GET", "GET", "POST", "POST", "PATCH", "DELETE", "HEAD", "PUT", "OPTIONS", "x"]),
    path=st.one_of(routes, routes, st.text(max_size=12), st.tuples(routes, st.text(max_size=5)).map("".join)),
    query=queries,
    extra=st.lists(st.tuples(header_names, header_values), max_size=3),
    host=st.sampled_from([True, True, True, False]),
    key=st.sampled_from([True, True, True, False]),
    kind=st.sampled_from([b"application/json", b"application/json", b"multipart/form-data; boundary=x", None]),
    body=bodies,
)
def test_no_request_whatsoever_is_an_error_of_the_server(
    guarded, loop, method, path, query, extra, host, key, kind, body
):
    headers = list(extra)
    headers += [(b"host", f"127.0.0.1:{PORT}".encode())] * host + [(b"authorization", f"Bearer {TOKEN}".encode())] * key
    headers += [(b"content-type", kind)] * (kind is not None)
    if method not in ("GET", "HEAD"):
        headers.append((b"content-length", str(len(body)).encode()))
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode("utf-8", "replace"), "query_string": query,
        "root_path": "", "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", PORT),
    }  # fmt: skip
    messages = loop.run_until_complete(messages_of(guarded, scope, body))
    assert [message["type"] for message in messages].count("http.response.start") == 1
    start, *rest = messages
    names = [name.lower() for name, _ in start["headers"]]
    assert all(names.count(name.encode()) == 1 for name in HEADERS)
    assert start["status"] < 500, messages
    assert not rest[-1].get("more_body", False) or path.endswith("/events")  # a client left that stream
    if start["status"] >= 400:
        text = b"".join(message.get("body", b"") for message in rest)
        assert len(json.loads(text)["error"]) <= 400


async def messages_of(app, scope, body):
    messages, complete, parts = [], asyncio.Event(), [body]

    async def receive():
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(complete.wait(), 0.2 if scope["path"].endswith("/events") else 20)
        return {"type": "http.disconnect"}

    async def send(message):
        messages.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            complete.set()

    await app(scope, receive, send)
    return messages


def test_a_million_wrong_numbers_are_one_error(guarded):
    from starlette.testclient import TestClient

    client = TestClient(
        guarded, base_url=f"http://127.0.0.1:{PORT}/api/v1", headers={"authorization": f"Bearer {TOKEN}"}
    )
    begun = time.process_time()
    answer = client.post("/labels", json={"items": ["x"] * 900_000, "class": 0})
    assert answer.status_code == 422
    assert len(answer.text) < 200
    assert time.process_time() - begun < 3
