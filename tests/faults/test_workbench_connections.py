"""Clients that are slow, silent or many: others are answered, and no connection is held for ever."""

import json
import socket
import time

import pytest
from servers import HASTY, SMALL, Service, answers_in, is_answered_quickly, read_all, wait_until
from workbenches import Server, write_digits

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


def half_open(service, count):
    """Connections that send nothing, and others that stop in the head of a request."""
    heads = (b"", b"GET", b"GET / HTTP/1.1\r\nHo", b"GET / HTTP/1.1\r\n" + service.host + b"A: b\r\n")
    return [service.connect(heads[i % len(heads)]) for i in range(count)]


def test_half_open_connections_keep_nobody_out(service):
    connections = half_open(service, 600)
    try:
        for _ in range(5):
            is_answered_quickly(service)
        ends = sum(is_closed(connection) for connection in connections)
        assert ends >= 600 - 256  # the oldest made room
    finally:
        for connection in connections:
            connection.close()


def is_closed(connection):
    connection.setblocking(False)
    try:
        return connection.recv(10_000) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_a_head_that_does_not_come_is_not_waited_for(hasty):
    connections = half_open(hasty, 100)
    begun = time.monotonic()
    answers = [read_all(connection) for connection in connections]
    assert time.monotonic() - begun < 5
    for i, answer in enumerate(answers):
        if i % 4 == 0:  # a browser connects ahead of time: that is no request
            assert answer == b""
        else:
            ((status, headers, body),) = answers_in(answer)
            assert status == 408
            assert headers["connection"] == "close"
            assert "head" in json.loads(body)["error"]
        connections[i].close()


def test_a_head_that_comes_byte_by_byte_has_no_more_time(hasty):
    connections = [hasty.connect(b"GET / HTTP/1.1\r\n") for _ in range(50)]
    begun, live = time.monotonic(), set(connections)
    while live and time.monotonic() - begun < 10:
        for connection in list(live):
            try:
                connection.sendall(b"a")
                if is_closed(connection):
                    live.discard(connection)
            except OSError:
                live.discard(connection)
        is_answered_quickly(hasty)
        time.sleep(0.1)
    assert not live
    assert time.monotonic() - begun < 8
    for connection in connections:
        connection.close()


def test_the_second_head_of_a_connection_has_a_limit_too(hasty):
    with hasty.connect(b"GET /api/v1/health HTTP/1.1\r\n" + hasty.host + hasty.key + b"\r\nGET /ap") as connection:
        first, second = answers_in(read_all(connection))
    assert (first[0], second[0]) == (200, 408)


def test_an_idle_connection_is_closed(hasty):
    begun = time.monotonic()
    (answer,) = answers_in(hasty.ask(b"GET /api/v1/health HTTP/1.1\r\n" + hasty.host + hasty.key + b"\r\n"))
    assert answer[0] == 200
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("length", [b"Content-Length: 1000\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_a_body_that_stalls_is_not_waited_for(hasty, length):
    head = b"POST /api/v1/solve HTTP/1.1\r\nContent-Type: application/json\r\n" + hasty.host + hasty.key + length
    begun = time.monotonic()
    ((status, _, body),) = answers_in(hasty.ask(head + b'\r\n5\r\n{"sup\r\n'))
    assert status == 408
    assert "body" in json.loads(body)["error"]
    assert time.monotonic() - begun < 5


def test_a_body_that_comes_slowly_but_steadily_is_read(hasty):
    body = json.dumps(SMALL).encode()
    head = b"POST /api/v1/solve HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    with hasty.connect(head + hasty.host + hasty.key + b"Content-Length: %d\r\n\r\n" % len(body)) as connection:
        for start in range(0, len(body), 20):
            connection.sendall(body[start : start + 20])
            time.sleep(0.4)
        ((status, _, answer),) = answers_in(read_all(connection))
    assert status == 200
    assert len(json.loads(answer)["labels"]) == 3


def seconds_until_it_is_dropped(connection, data):
    """While it goes on sending and never reads."""
    begun = time.monotonic()
    while time.monotonic() - begun < 60:
        try:
            connection.sendall(data)
        except OSError:
            break
        time.sleep(0.02)
    return time.monotonic() - begun


def test_the_rest_of_a_body_that_was_refused_is_not_read_for_ever(hasty):
    """The answer comes before the body ends; the client goes on sending."""
    head = b"POST /api/v1/nothing HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    with hasty.connect(head + hasty.host + hasty.key + b"\r\n") as connection:
        assert seconds_until_it_is_dropped(connection, b"400\r\n" + b"x" * 1024 + b"\r\n") < 8


def test_a_client_that_does_not_read_its_answer_is_dropped(hasty):
    """Many pipelined requests, whose answers fill every buffer between."""
    request = b"GET /api/v1/openapi.json HTTP/1.1\r\n" + hasty.host + hasty.key + b"\r\n"
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", hasty.port))
    with connection:
        assert seconds_until_it_is_dropped(connection, request * 50) < 30
    is_answered_quickly(hasty)


def test_connections_at_work_are_not_dropped_for_new_ones():
    service = Service(connections=8)
    try:
        body = json.dumps(SMALL).encode()
        head = b"POST /api/v1/solve HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
        head += service.host + service.key + b"Content-Length: %d\r\n\r\n" % len(body)
        at_work = [service.connect(head) for _ in range(3)]
        time.sleep(0.3)
        silent = half_open(service, 50)
        is_answered_quickly(service)
        for connection in at_work:
            connection.sendall(body)
            ((status, _, _),) = answers_in(read_all(connection))
            assert status == 200
        for connection in [*at_work, *silent]:
            connection.close()
    finally:
        service.close()


def test_a_page_gets_its_events_however_many_streams_are_open(tmp_path):
    write_digits(tmp_path, 20, 2, pictures=False)
    server = Server(tmp_path / "digits.parquet")
    try:
        own = server.facts
        port = int(own["address"].rstrip("/").rpartition(":")[2])
        head = f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {own['token']}\r\n\r\n"
        streams = []
        for _ in range(400):
            newest = socket.create_connection(("127.0.0.1", port), timeout=20)
            newest.sendall(head.encode())
            assert newest.recv(15) == b"HTTP/1.1 200 OK"  # so they are opened in this order
            streams.append(newest)
        assert server.client.post("/classes", json={"name": "owl"}).status_code == 200
        text, end = b"", time.monotonic() + 20
        while b"owl" not in text:
            part = newest.recv(2**16)
            assert part
            assert time.monotonic() < end, text
            text += part
        wait_until(lambda: sum(not is_ended(stream) for stream in streams) <= 32, 20)
        for stream in streams:
            stream.close()
    finally:
        server.close()


def is_ended(stream):
    """Whether the last chunk has come: the server ended it, and keeps the connection."""
    stream.setblocking(False)
    try:
        data = stream.recv(2**20, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return data == b"" or data.endswith(b"0\r\n\r\n")
