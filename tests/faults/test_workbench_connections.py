"""Clients that are slow, silent or many: others are answered."""

import json
import socket
import time

import pytest
from servers import KIND, POST, SMALL, Server, answers_in, is_answered_quickly, read_all, request, wait_until
from workbenches import write_digits

pytest.importorskip("fastapi")


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


def test_the_rest_of_a_body_that_was_refused_is_not_read(service):
    head = POST + b"\r\n" + service.host + KIND + b"\r\nTransfer-Encoding: chunked\r\n\r\n"  # without the key
    with service.connect(head) as connection:
        begun = time.monotonic()
        with pytest.raises(OSError, match=r".+"):  # noqa: PT012 - it may be refused in any of these
            while time.monotonic() - begun < 20:
                connection.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
                time.sleep(0.02)
        assert time.monotonic() - begun < 10
    is_answered_quickly(service)


def test_a_client_that_does_not_read_its_answers_keeps_nobody_out(service):
    """Many pipelined requests, whose answers fill every buffer between."""
    asked = b"GET /api/v1/openapi.json HTTP/1.1\r\n" + service.host + service.key + b"\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(1)
        connection.connect(("127.0.0.1", service.port))
        try:
            for _ in range(200):
                connection.sendall(asked * 50)
        except OSError:  # the server takes no more of them
            pass
        is_answered_quickly(service)


def test_a_page_gets_its_events_however_many_pages_are_open(tmp_path):
    write_digits(tmp_path, 20, 2, pictures=False)
    server = Server(tmp_path / "digits.parquet")
    try:
        own = server.facts
        port = int(own["address"].rstrip("/").rpartition(":")[2])
        head = f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {own['token']}\r\n\r\n"
        streams = []
        for _ in range(50):
            streams.append(socket.create_connection(("127.0.0.1", port), timeout=20))
            streams[-1].sendall(head.encode())
        assert server.client.post("/classes", json={"name": "owl"}).status_code == 200
        for stream in streams:
            text, end = b"", time.monotonic() + 20
            while b"owl" not in text:
                part = stream.recv(2**16)
                assert part
                assert time.monotonic() < end, text
                text += part
        close_all(streams)
    finally:
        server.close()
