"""The check of every request of the HTTP door, before anything of it is used.

A page in the same browser can send requests to any port of this machine; three checks keep it out:

    Host            names this door by its loopback address, so a name that was rebound to it is refused
    Origin          is absent or this door's own, and so is what `Sec-Fetch-Site` says
    token           in `Authorization: Bearer`, or in the cookie that the page got for it (HttpOnly,
                    SameSite=Strict, named after the port, because cookies do not know ports)

The files of the page hold no secret and need no token, so that the page can be opened with the token in its
fragment, which no server and no log gets to see.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import JSONResponse, RedirectResponse, Response

from fakeserver.control.web.assets import ASSETS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES: Final = 1 << 20
"""The size of a request's body, at most."""
_MOST_READ_AWAY: Final = 16 * MOST_BYTES
_TOO_LARGE: Final = 413
SESSION: Final = "/session"
_BEARER: Final = "bearer "

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class TooLarge(Exception):  # noqa: N818 - what the body is
    """The body is larger than `MOST_BYTES`."""


class Guard:
    """Passes the requests on that may be answered, and refuses the others."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._cookie = f"pushbackd-{port}"
        self._hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI)."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        answer = self._refusal(scope, headers) or self._session(scope)
        send = _with_headers(send)
        if answer is not None:
            if answer.status_code == _TOO_LARGE:
                await _read_away(receive)
            await answer(scope, receive, send)
            return
        await self._app(scope, _bounded(receive), send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host, path = headers.get("host", ""), scope["path"]
        if host not in self._hosts:
            return refusal(403, f"this door is {' or '.join(sorted(self._hosts))}, not {host!r}")
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{each}" for each in self._hosts}:
            return refusal(403, f"requests from {origin!r} are refused")
        if path in ASSETS and not scope["query_string"]:
            return None
        if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"} and path not in ASSETS:
            return refusal(403, "requests from other sites are refused")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return too_large()
        if not self._knows(scope, headers):
            return refusal(401, "this request has no token, or a wrong one; `Authorization: Bearer TOKEN`")
        return None

    def _knows(self, scope: Scope, headers: Headers) -> bool:
        """Return whether the request has the token: in its header, its cookie or, for the page, its query."""
        given = []
        authorization = headers.get("authorization", "")
        if authorization.lower().startswith(_BEARER):
            given.append(authorization[len(_BEARER) :].strip())
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            cookies = SimpleCookie()
        if self._cookie in cookies:
            given.append(cookies[self._cookie].value)
        if scope["path"] in ASSETS:
            given.append(QueryParams(scope["query_string"]).get("token", self._token))
        return any(hmac.compare_digest(each.encode(), self._token.encode()) for each in given)

    def _session(self, scope: Scope) -> Response | None:
        """Return the answer that gives the browser its cookie, where the request asks for it."""
        if scope["path"] == SESSION and scope["method"] == "POST":
            answer = Response(status_code=204)
        elif scope["path"] in ASSETS and "token" in QueryParams(scope["query_string"]):
            answer = RedirectResponse(scope["path"], status_code=303)
        else:
            return None
        answer.set_cookie(self._cookie, self._token, path="/", httponly=True, samesite="strict")
        return answer


def refusal(status: int, message: str) -> Response:
    """Return an answer that says why there is no other."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None  # noqa: PLR2004 - Unauthorized
    return JSONResponse({"error": message, "path": []}, status, headers)


def too_large() -> Response:
    """Return the answer to a request with more than `MOST_BYTES`."""
    answer = refusal(_TOO_LARGE, f"the body has more than {MOST_BYTES} bytes")
    answer.headers["Connection"] = "close"
    return answer


async def _read_away(receive: Receive) -> None:
    """Read what a client sends, up to a bound: one that is reset while it sends never sees the answer."""
    came = 0
    while came < _MOST_READ_AWAY:
        message = await receive()
        came += len(message.get("body", b""))
        if not message.get("more_body", False):
            return


def _bounded(receive: Receive) -> Receive:
    """Return `receive` for a body of `MOST_BYTES` at most, whatever its length was said to be."""
    came = 0

    async def bounded() -> Message:
        nonlocal came
        message = await receive()
        came += len(message.get("body", b""))
        if came > MOST_BYTES:
            raise TooLarge
        return message

    return bounded


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
