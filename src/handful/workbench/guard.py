"""The door: who may ask, from where, and how much. Every answer leaves with headers that tie the browser's hands.

The server is for one person on one machine. Other people's programs cannot read the token. Web pages that the person
has open elsewhere could send requests here, and a name that leads to 127.0.0.1 could make them look like its own: Host,
Origin and the cookie's SameSite are against those.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger("handful.workbench")

COOKIE = "handful_session"
MEGABYTE = 2**20
BODY = 20 * MEGABYTE  # of JSON
LARGER = {"/api/v1/solve": 200 * MEGABYTE, "/api/v1/upload": 201 * 50 * MEGABYTE}
MULTIPART = "/api/v1/upload"
SAFE = ("GET", "HEAD")
SESSIONS = 4  # workbenches that a browser may have open: a cookie knows no ports, so they share one
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
}


class Guard:
    """ASGI middleware around the app; `port` is where it listens."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]")}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        dressed = _with_headers(send)
        answer = self._judge(scope)
        if answer is not None:
            await answer(scope, receive, dressed)
            return
        await self.app(scope, _counted(receive, LARGER.get(scope["path"], BODY)), dressed)

    def _judge(self, scope: Scope) -> Response | None:
        """A refusal, or the welcome of someone who brings the token; None lets the request pass."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host, method = headers.get("host", []), scope["method"]
        if len(host) != 1 or host[0].lower() not in self.hosts:
            return self._refuse(scope, 421, "this is not the address of the workbench: open the one that it printed")
        if method not in SAFE and (refusal := self._judge_writing(scope, headers)) is not None:
            return refusal
        if scope["path"] == "/" and method in SAFE and (token := _token_of(scope)) is not None:
            if not self._is_token(token):
                return self._refuse(scope, 401, "this address is of another session: open the one that was printed")
            return self._welcome(_cookies(headers))
        if not self._is_known(headers):
            return self._refuse(scope, 401, "open the address that handful printed when it was started: it has the key")
        length = headers.get("content-length", ["0"])[0]
        limit = LARGER.get(scope["path"], BODY)
        if length.isdecimal() and int(length[:20]) > limit:
            return self._refuse(scope, 413, _too_large(limit))
        return None

    def _judge_writing(self, scope: Scope, headers: dict[str, list[str]]) -> Response | None:
        origin, site = headers.get("origin", []), headers.get("sec-fetch-site", [])
        if any(one not in self.origins for one in origin) or any(one not in ("same-origin", "none") for one in site):
            return self._refuse(scope, 403, "another web page tried to change something here: it was not let in")
        kinds = headers.get("content-type", [])
        kind = kinds[0].split(";")[0].strip().lower() if kinds else ""
        wanted = "multipart/form-data" if scope["path"] == MULTIPART else "application/json"
        empty = headers.get("content-length", ["0"])[0] == "0" and "transfer-encoding" not in headers
        if len(kinds) > 1 or (kind != wanted and not (empty and not kinds and scope["path"] != MULTIPART)):
            return self._refuse(scope, 415, f"the content type must be {wanted}: send it as that")
        return None

    def _is_known(self, headers: dict[str, list[str]]) -> bool:
        given = [text[7:].strip() for text in headers.get("authorization", []) if text[:7].lower() == "bearer "]
        return any(self._is_token(one) for one in [*given, *_cookies(headers)])

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.token.encode())

    def _welcome(self, others: Iterable[str]) -> Response:
        kept = [one for one in others if one and not self._is_token(one)][: SESSIONS - 1]
        answer = Response(status_code=303, headers={"location": "/", "cache-control": "no-store"})
        answer.set_cookie(COOKIE, ".".join([self.token, *kept]), httponly=True, samesite="strict", path="/")
        return answer

    def _refuse(self, scope: Scope, status: int, sentence: str) -> Response:
        log.warning("refused %s %.200r: %d, %s", scope["method"], scope["path"], status, sentence)
        headers = {"cache-control": "no-store"} | ({"www-authenticate": "Bearer"} if status == 401 else {})
        # What is left of a body is not read: the connection ends with the answer
        return JSONResponse({"error": sentence}, status, headers | {"connection": "close"})


def _with_headers(send: Send) -> Send:
    async def dressed(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = [(name, value) for name, value in message["headers"] if name.lower() != b"server"]
            message["headers"] = own + [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        await send(message)

    return dressed


def _counted(receive: Receive, limit: int) -> Callable[[], Awaitable[MutableMapping[str, Any]]]:
    read = 0

    async def counted() -> MutableMapping[str, Any]:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > limit:
            raise HTTPException(413, _too_large(limit))  # a body that did not say how long it would be
        return message

    return counted


def _too_large(limit: int) -> str:
    return f"the request is larger than {limit // MEGABYTE} MB, which is the most: send less at once"


def _token_of(scope: Scope) -> str | None:
    from urllib.parse import parse_qs

    return parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=20).get("token", [None])[0]


def _cookies(headers: dict[str, list[str]]) -> list[str]:
    """The tokens of all sessions that the browser has."""
    found: list[str] = []
    for text in headers.get("cookie", []):
        try:
            morsel = SimpleCookie(text).get(COOKIE)
        except CookieError:
            continue
        found += morsel.value.split(".")[:SESSIONS] if morsel is not None else []
    return found
