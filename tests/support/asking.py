"""A client of the HTTP door, with nothing between a test and the bytes but the standard library."""

from __future__ import annotations

import http.client
import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fakeserver.deployment.doors import Served

_PATIENCE = 20.0


@dataclass(frozen=True)
class Answer:
    """An answer; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class HttpDoor:
    """Sends requests to a door that listens, with its token."""

    def __init__(self, served: Served) -> None:
        self.address = served.url.removeprefix("http://")
        self.token = served.token

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, body: object = None, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        return self.ask("POST", path, data, headers)

    def perform(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Perform a verb. Raises `ControlError`."""
        answer = self.post(f"/control/{name}", arguments)
        if answer.status != 200:
            raise ControlError(answer.document["error"], path=tuple(answer.document["path"]))
        found: dict[str, Any] = answer.document
        return found

    def ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request; underscores in names of headers are hyphens, and an empty header is left out."""
        with self._connected() as connection:
            connection.request(method, path, body, self._headers(headers))
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, named, answer.read())

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[Iterator[dict[str, str]]]:
        """Yield the server-sent events of a path, each with its fields."""
        with self._connected() as connection:
            connection.request("GET", path, None, self._headers(headers))
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield _events(answer)

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection(self.address, timeout=_PATIENCE)
        try:
            yield connection
        finally:
            connection.close()

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        named = {"Authorization": f"Bearer {self.token}", "Connection": "close", **named}
        return {name: value for name, value in named.items() if value}


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    event: dict[str, str] = {}
    for line in answer:
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field:
            event[field] = value
        elif event:
            yield event
            event = {}
