"""Limits on connections: how long the server waits for a client, and how many connections it holds.

Every client is on this machine, so all have the same address, and a limit per address is of no use. Instead, when there
are too many connections, one that waits for its client is closed: first those that have not sent the head of a request,
then those that are idle between two requests, the oldest first.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from handful.workbench.server.guard import RAW_HEADERS

MAX_CONNECTIONS = 256
MAX_HEAD_BYTES = 32 * 1024
FEED_BYTES = 16 * 1024  # for the parser at a time: it checks the size of a head only between two pieces
FREE_PIECES = 1000  # pieces of a body that may be small; if there are more, they must have MIN_PIECE_BYTES on average
MIN_PIECE_BYTES = 100
UNREADABLE_REQUEST = (
    f"this is not a request that can be read: it is broken, or its head is larger than {MAX_HEAD_BYTES // 1024} kB"
)


@dataclass(frozen=True)
class Limits:
    """Seconds, and a number of connections."""

    head_s: float = 10.0  # to send the head of a request
    body_s: float = 30.0  # without a byte of the body
    answer_s: float = 30.0  # in which the client reads not a byte of the answer
    keep_alive_s: int = 30  # between two requests
    linger_s: float = 2.0  # to send the rest of a body that was answered early
    connections: int = MAX_CONNECTIONS


def default_limits() -> Limits:
    """Fewer connections where the system allows few open files."""
    try:
        import resource
    except ImportError:  # Windows
        return Limits()
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return Limits()
    return Limits(connections=max(16, min(MAX_CONNECTIONS, soft // 4)))


def protocol_with(limits: Limits) -> type[H11Protocol]:
    """The protocol class for `uvicorn.Config(http=...)`."""
    return type("LimitedProtocol", (BoundedProtocol,), {"limits": limits})


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with limits. Its own answers are sentences in JSON, with the headers of the guard."""

    limits = Limits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = _Connection(h11.SERVER, MAX_HEAD_BYTES)
        self.head_since: float | None = None  # when this connection began to wait for a head
        self.read_at = self.answered_at = self.sent_at = 0.0
        self.unsent_bytes = 0
        self.check: asyncio.TimerHandle | None = None

    # ---- what uvicorn and asyncio call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the time, and close an idle connection if there are too many."""
        super().connection_made(transport)
        self.head_since = self.read_at = self.loop.time()
        self._make_room()
        self._check_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop checking the connection."""
        if self.check is not None:
            self.check.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data in small pieces, so that the rest of a refused request is not parsed."""
        self.read_at = self.loop.time()
        for start in range(0, len(data), FEED_BYTES):
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + FEED_BYTES])

    def handle_events(self) -> None:
        """Parse requests, and note since when the head of the next one is incomplete."""
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            self.head_since = None
        elif self.head_since is None and self.conn.trailing_data[0]:
            self._unset_keepalive_if_required()
            self.head_since = self.loop.time()

    def on_response_complete(self) -> None:
        """Note when the answer was sent."""
        self.answered_at = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP with one sentence and close the connection."""
        self._end(400, UNREADABLE_REQUEST)

    def _should_upgrade(self) -> bool:
        return False  # no websockets here: the request is answered as a normal one

    # ---- limits

    def waits_for_client(self) -> bool:
        """Whether the connection is idle: no request has begun and no answer is unsent."""
        idle = self.conn.their_state is h11.IDLE and not self.transport.get_write_buffer_size()
        return idle and not self.transport.is_closing()

    def _make_room(self) -> None:
        others = [c for c in self.connections if isinstance(c, BoundedProtocol) and c is not self]
        if sum(not c.transport.is_closing() for c in others) < self.limits.connections:
            return
        waiting = [c for c in others if c.waits_for_client()]
        if waiting:
            oldest = min(waiting, key=lambda c: (c.head_since is None, c.head_since or c.answered_at))
            oldest.transport.abort()
        else:
            self._end(503, "too many requests are being answered: try again when some are done")

    def _check_later(self) -> None:
        limits = self.limits
        shortest = min(limits.head_s, limits.body_s, limits.answer_s, limits.linger_s)
        self.check = self.loop.call_later(min(1.0, shortest / 4), self._check)

    def _check(self) -> None:
        self._check_later()
        now, limits = self.loop.time(), self.limits
        unsent = self.transport.get_write_buffer_size()
        if unsent != self.unsent_bytes or not unsent:
            self.unsent_bytes, self.sent_at = unsent, now
        elif now - self.sent_at > limits.answer_s:
            self.transport.abort()
        if self.transport.is_closing():
            return
        if self.flow.read_paused:  # the client could not send
            self.read_at = now
        if self.head_since is not None and now - self.head_since > limits.head_s:
            if self.conn.trailing_data[0]:
                self._end(408, f"the head of the request did not come within {limits.head_s:g} seconds: send it again")
            else:  # a browser may connect in advance, and expects no answer without a request
                self.transport.close()
        elif self.conn.their_state is h11.SEND_BODY:
            if self.cycle.response_complete:
                if now - self.answered_at > limits.linger_s:
                    self.transport.close()
            elif now - self.read_at > limits.body_s:
                self._end(408, f"nothing of the body came for {limits.body_s:g} seconds: send it again")

    def _end(self, status: int, sentence: str) -> None:
        """End the connection, with a sentence where no answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps({"error": sentence}).encode()
            own = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            headers = [*own, *RAW_HEADERS, (b"connection", b"close")]
            start = h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status])
            is_head = self.conn.our_state is h11.SEND_RESPONSE and self.scope["method"] == "HEAD"
            for event in (start, h11.Data(data=b"" if is_head else body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


class _Connection(h11.Connection):
    """Refuses a body in very many small pieces, because a small piece takes as much time as a large one."""

    pieces = piece_bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.pieces = self.piece_bytes = 0
        elif isinstance(event, h11.Data):
            self.pieces += 1
            self.piece_bytes += len(event.data)
            if self.pieces > FREE_PIECES + self.piece_bytes // MIN_PIECE_BYTES:
                raise h11.RemoteProtocolError("the body comes in pieces that are too small")
        return event
