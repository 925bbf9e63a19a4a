"""POST /solve: large requests keep nobody waiting, and what solves them ends when it is not needed."""

import json
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from servers import KIND, MEGABYTE, POST, SMALL, Server, answers_in, is_answered_quickly, read_all, request, wait_until

pytest.importorskip("fastapi")

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def numbers(megabytes, value=b"0.12345", columns=512):
    """A request of that size: rows of two kinds, so that solving them is work."""
    row = b"[" + b",".join([value] * columns) + b"],"
    rows = row * ((megabytes * MEGABYTE - 1000) // len(row))
    support = json.dumps([[1] * columns, [0] * columns]).encode()
    return b'{"support":' + support + b',"labels":["a","b"],"query":[' + rows.rstrip(b",") + b"]}"


@pytest.mark.parametrize("value", [b"0.12345", b'"x"'])
def test_others_are_answered_while_a_large_request_is_read_and_solved(service, value):
    """Numbers in thousands of rows; and texts, which must not be told of one by one."""
    body, answers = numbers(16, value), []
    assert len(body) > 15 * MEGABYTE

    def post():
        with service.open_client() as client:
            answers.append(client.post("/solve", content=body, headers={"content-type": "application/json"}))

    thread = threading.Thread(target=post)
    thread.start()
    worst, asked = 0.0, 0
    with service.open_client() as client:
        while thread.is_alive():
            begun = time.perf_counter()
            assert client.get("/health").status_code == 200
            worst, asked = max(worst, time.perf_counter() - begun), asked + 1
            time.sleep(0.02)
    assert worst < 2.0, f"{asked} requests, the slowest took {worst:.1f} s"
    (answer,) = answers
    assert answer.status_code == 200 if value == b"0.12345" else answer.status_code == 422, answer.text[:300]
    if answer.status_code != 200:
        assert len(answer.text) < 300


def test_a_fifth_request_to_solve_is_told_to_come_again(service):
    body = numbers(31, columns=16)  # two hundred thousand rows
    head = request(service, POST, KIND, b"Content-Length: %d" % len(body))
    waiting = [service.connect(head + body) for _ in range(4)]
    time.sleep(0.5)
    try:
        ((status, _, answer),) = answers_in(service.ask(request(service, POST, KIND, b"Content-Length: 1000")))
        assert status == 503
        assert "again" in json.loads(answer)["error"]
        is_answered_quickly(service)
    finally:
        for connection in waiting:
            connection.close()
    with service.open_client() as client:
        wait_until(lambda: client.post("/solve", json=SMALL).status_code == 200, 20)


@linux
def test_solving_stops_when_its_client_leaves_and_a_process_that_dies_is_replaced():
    service = Server(command="serve")
    try:
        body = numbers(31)
        head = request(service, POST, KIND, b"Content-Length: %d" % len(body))
        connection = service.connect(head + body)
        wait_until(service.children, 20)
        (child,) = service.children()
        connection.close()
        wait_until(lambda: child not in service.children(), 10)
        with service.open_client() as client:
            assert client.post("/solve", json=SMALL).status_code == 200
            os.kill(service.children()[0], signal.SIGKILL)
            assert client.post("/solve", json=SMALL).status_code in (200, 503)
            assert client.post("/solve", json=SMALL).status_code == 200
            (child,) = service.children()
            service.process.kill()  # and it does not outlive the server
            service.process.wait()
        wait_until(lambda: not is_running(child), 20)
    finally:
        service.close()


@linux
def test_ctrl_c_while_something_is_solved_is_quick_and_quiet():
    service = Server(command="serve")
    body = numbers(31, columns=16)  # two hundred thousand rows
    connection = service.connect(request(service, POST, KIND, b"Content-Length: %d" % len(body)) + body)
    wait_until(service.children, 20)
    (child,) = service.children()
    time.sleep(1)
    begun = time.monotonic()
    service.close()  # which looks for tracebacks
    assert time.monotonic() - begun < 15
    for status, _, text in answers_in(read_all(connection)):  # if it was far enough to be told
        assert status == 503
        assert "stopped" in json.loads(text)["error"]
    connection.close()
    wait_until(lambda: not is_running(child), 10)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_tensors_are_solved_like_json(service):
    from safetensors.numpy import save

    import handful

    rng = np.random.default_rng(0)
    support, query = rng.normal(size=(6, 5)), rng.normal(size=(40, 5)).astype(np.float32)
    labels = ["a", "b"] * 3
    options = {"labels": labels, "outlier_share": 0.3}
    kind = {"content-type": "application/octet-stream"}

    def file(arrays, options):
        return save(arrays, None if options is None else {"options": json.dumps(options)})

    good = file({"support": support, "query": query}, options)
    with service.open_client() as client:
        answer = client.post("/solve", content=good, headers=kind).json()
        assert answer["labels"] == handful.solve(support, labels, query, outlier_share=0.3).labels.tolist()
        wrong_files = [
            b"", good[:-1], b"\xff" * 100, b"PK\x03\x04", (2**62).to_bytes(8, "little"), good + b"x",
            file({"support": support}, options),
            file({"support": support, "query": query}, None),
            file({"support": support, "query": query, "more": query}, options),
            file({"support": support[None], "query": query[None]}, options),
            file({"support": support, "query": query}, {"labels": [1]}),
            file({"support": support, "query": query}, [1]),
            file({"support": support, "query": query * np.nan}, options),
        ]  # fmt: skip
        for wrong in wrong_files:
            answer = client.post("/solve", content=wrong, headers=kind)
            assert answer.status_code in (400, 415, 422), answer.text
            assert len(answer.text) < 400
