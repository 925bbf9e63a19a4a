"""Check every request before the app sees it, and add to every answer the headers that restrict the browser.

The server is for one person on one machine. Programs of other people cannot read the token. Other web pages that are
open in the browser could send requests to this server, also under a name that leads to 127.0.0.1. The checks of Host
and Origin, and the SameSite cookie, stop them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger("handful.workbench")

COOKIE = "handful_session_{port}"  # a browser gives the cookies of one port to all
SERVER_STOPPED = "the server was stopped before the request was done: start it again"
JSON, TENSORS, FORM = "application/json", "application/octet-stream", "multipart/form-data"
MEGABYTE = 2**20
MAX_BYTES = {JSON: 2 * MEGABYTE}  # size of a body by its content type; other types are refused
MAX_BYTES_OF = {
    "/api/v1/solve": {JSON: 32 * MEGABYTE, TENSORS: 200 * MEGABYTE},
    "/api/v1/upload": {FORM: 201 * 50 * MEGABYTE},
    "/api/v1/labels": {JSON: 10 * MEGABYTE},  # the numbers of a million items
    "/api/v1/accept": {JSON: 10 * MEGABYTE},
}
SAFE_METHODS = ("GET", "HEAD")
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
RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
Headers = dict[str, list[str]]


class Guard:
    """ASGI middleware around the app; `port` is where it listens."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self.app, self.token, self.cookie = app, token, COOKIE.format(port=port)
        self.hosts = {f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]")}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request before the app sees it; answer it here if it is refused."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _Answer(send)
        try:
            refusal = self._judge(scope)
            if refusal is not None:
                await refusal(scope, receive, answer.send)
            else:
                await self.app(scope, _counted(receive, _max_bytes(scope, _headers(scope))), answer.send)
        except asyncio.CancelledError:  # the server stops
            if answer.begun:
                raise
            stopped = self._refuse(scope, 503, SERVER_STOPPED)
            await stopped(scope, receive, answer.send)
        except Exception as error:
            log.exception("%.20s %.200r went wrong", scope["method"], scope["path"])
            if not answer.begun:
                sentence = f"something went wrong that should not ({type(error).__name__}): please report it"
                await self._refuse(scope, 500, sentence)(scope, receive, answer.send)
            elif not answer.complete:
                raise  # the server closes the connection, and the client sees that the answer is incomplete

    def _judge(self, scope: Scope) -> Response | None:
        """A refusal, or the answer to a request for the page with the token; None lets the request pass."""
        headers = _headers(scope)
        host, method, path = headers.get("host", []), scope["method"], scope["path"]
        if len(host) != 1 or host[0].lower() not in self.hosts:
            return self._refuse(scope, 421, "this is not the address of the workbench: open the one that it printed")
        if self._is_from_elsewhere(scope, headers):
            return self._refuse(scope, 403, "another web page sent this request: it is refused")
        if method not in SAFE_METHODS and (refusal := self._judge_kind(scope, headers)) is not None:
            return refusal
        if path == "/" and method in SAFE_METHODS and (token := _token_of(scope)) is not None:
            if not self._is_token(token):
                return self._refuse(
                    scope, 401, "this address belongs to another session: open the one that was printed"
                )
            answer = Response(status_code=303, headers={"location": "/", "cache-control": "no-store"})
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        if not self._is_known(headers):
            return self._refuse(scope, 401, "open the address that handful printed when it was started: it has the key")
        limit = _max_bytes(scope, headers)
        if int(headers.get("content-length", ["0"])[0]) > limit:
            return self._refuse(scope, 413, _too_large(limit))
        return None

    def _is_from_elsewhere(self, scope: Scope, headers: Headers) -> bool:
        """Whether another web page sent the request. Such a page may have a link to the page, but not to the API."""
        if scope["method"] in SAFE_METHODS and not scope["path"].startswith("/api/"):
            return False
        origins, sites = headers.get("origin", []), headers.get("sec-fetch-site", [])
        return any(one not in self.origins for one in origins) or any(
            one not in ("same-origin", "none") for one in sites
        )

    def _judge_kind(self, scope: Scope, headers: Headers) -> Response | None:
        accepted, kinds = MAX_BYTES_OF.get(scope["path"], MAX_BYTES), headers.get("content-type", [])
        empty = headers.get("content-length", ["0"])[0] == "0" and "transfer-encoding" not in headers
        if (not kinds and empty and JSON in accepted) or (len(kinds) == 1 and _kind(headers) in accepted):
            return None
        return self._refuse(scope, 415, f"the content type must be {' or '.join(accepted)}: send it as that")

    def _is_known(self, headers: Headers) -> bool:
        keys = [text[7:].strip() for text in headers.get("authorization", []) if text[:7].lower() == "bearer "]
        cookies = [cookie.partition("=") for text in headers.get("cookie", []) for cookie in text.split(";")]
        keys += [value.strip().strip('"') for name, _, value in cookies if name.strip() == self.cookie]
        return any(map(self._is_token, keys))

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.token.encode())

    def _refuse(self, scope: Scope, status: int, sentence: str) -> Response:
        log.warning("refused %.20s %.200r: %d, %s", scope["method"], scope["path"], status, sentence)
        headers = {"cache-control": "no-store"} | ({"www-authenticate": "Bearer"} if status == 401 else {})
        # The rest of the body is not read: the connection ends with the answer
        return JSONResponse({"error": sentence}, status, headers | {"connection": "close"})


class _Answer:
    """Sends an answer with the headers of every answer, and knows how much of it was sent."""

    def __init__(self, send: Send) -> None:
        self._send, self.begun, self.complete = send, False, False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            own = [(name, value) for name, value in message["headers"] if name.lower() != b"server"]
            message["headers"] = own + RAW_HEADERS
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
        await self._send(message)


def _counted(receive: Receive, limit: int) -> Callable[[], Awaitable[MutableMapping[str, Any]]]:
    read = 0

    async def counted() -> MutableMapping[str, Any]:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > limit:
            raise HTTPException(413, _too_large(limit))  # a body without content-length
        return message

    return counted


def _headers(scope: Scope) -> Headers:
    headers: Headers = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


def _kind(headers: Headers) -> str:
    return headers.get("content-type", [JSON])[0].split(";")[0].strip().lower()


def _max_bytes(scope: Scope, headers: Headers) -> int:
    return MAX_BYTES_OF.get(scope["path"], MAX_BYTES).get(_kind(headers), MAX_BYTES[JSON])


def _too_large(limit: int) -> str:
    return f"the request is larger than {limit // MEGABYTE} MB, the limit: send less at once"


def _token_of(scope: Scope) -> str | None:
    """The field `token` of the query. A token has no characters that are escaped there."""
    fields = scope["query_string"].decode("latin-1").split("&")
    return next((field[6:] for field in fields if field.startswith("token=")), None)
