"""Requests made by chance, and clients that are slow."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers import HEADERS, KIND, POST, SMALL, answers_in, read_all, request
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


ROUTES = ["", "project", "items", "ids", "items/1", "pictures/1", "map", "groups", "histogram", "classes", "labels",
          "accept", "run", "job", "threshold", "undo", "redo", "export", "upload", "classes/1", "groups/1/promote",
          "groups/1/split", "groups/1/join", "check", "compare", "download", "solve"]  # fmt: skip
NAMES = ["host", "cookie", "authorization", "content-type", "origin", "range", "sec-fetch-site", "accept"]
VALUES = [b"application/json", b"multipart/form-data;boundary=x", b"chunked", b"7", b"\xb2", b"bytes=0-5", b"null",
          b"9" * 30, b'handful_session_8321="\\012\\377".x', f"handful_session_8321={TOKEN}".encode()]  # fmt: skip
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


def test_an_answer_repeats_no_sign_that_a_terminal_obeys(guarded):
    answer = guarded.post("/classes", json={"name": "cat", "\x1b[2J": 1})
    assert answer.status_code == 422
    assert answer.json()["error"].isprintable()


def test_bodies_that_come_slowly_are_read_and_keep_nobody_out(service):
    body = json.dumps(SMALL).encode()
    slow = [service.connect(request(service, POST, KIND, b"Content-Length: %d" % len(body))) for _ in range(10)]
    slow += [service.connect(b"GET / HTTP/1.1\r\nHo") for _ in range(50)]  # they stop in the head
    try:
        with service.open_client() as client:
            for start in range(0, len(body), 40):
                for connection in slow[:10]:
                    connection.sendall(body[start : start + 40])
                if start + 40 < len(body):
                    answer = client.post("/solve", json=SMALL)
                    assert answer.status_code == 200, answer.text
        statuses = [answers_in(read_all(connection))[0][0] for connection in slow[:10]]
        assert set(statuses) <= {200, 503}  # they came all at once: some may have to come again
        assert statuses.count(200) >= 4
    finally:
        for connection in slow:
            connection.close()
