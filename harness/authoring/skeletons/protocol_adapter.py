"""The whole adapter protocol with the standard library of one language, to be translated to yours.

Requests come from standard input and answers go to standard output, one JSON document a line. This program
knows clients, databases and collections, and no operation. README.md beside it says what to do next.
"""

from __future__ import annotations

import json
import sys
from typing import Any


class Unsupported(Exception):  # noqa: N818 - an answer, which skips the case
    """The adapter has no such method, entity, operation or argument; the text says which."""


# The objects of the driver, by the id of the request that created them. Entities have no other names.
entities: dict[int, dict[str, Any]] = {}


def hello(_number: int, _on: Any, _params: dict[str, Any]) -> Any:
    """Introduce the adapter: the version of the protocol, a name for reports, and what the driver can do."""
    return {"result": {"protocol": 1, "name": "my-driver", "features": []}}


def client(number: int, _on: Any, params: dict[str, Any]) -> Any:
    """Make a client at once, also without a reachable server; the URI has all options."""
    entities[number] = {"client": params["uri"]}
    return {"entity": True}


def create(number: int, on: Any, params: dict[str, Any]) -> Any:
    """Make an entity below the entity `on`; `spec` is its document in the scenario."""
    if params["kind"] not in ("database", "collection"):
        raise Unsupported(f"no entity {params['kind']}")
    entities[number] = {"parent": on, "name": params["spec"][params["kind"] + "Name"]}
    return {"entity": True}


def call(_number: int, _on: Any, params: dict[str, Any]) -> Any:
    """Run an operation on the entity `on`, and answer with its result or with the driver's error.

    {"result": …}, or {"error": {"message": …, "code": …, "codeName": …, "labels": […], "isClientError": …}}
    """
    raise Unsupported(f"no {params['operation']} on a {params['kind']}")


def close_client(_number: int, _on: Any, _params: dict[str, Any]) -> Any:
    """Close the client `on`; closing twice is no error."""
    return {"result": None}


def close(_number: int, _on: Any, _params: dict[str, Any]) -> Any:
    """Close and forget everything: the case has ended. Ids go on in the next one."""
    entities.clear()
    return {"result": None}


def no_such_method(_number: int, _on: Any, _params: dict[str, Any]) -> Any:
    """Refuse a method that has joined the protocol since."""
    raise Unsupported("no such method")


METHODS = {
    "hello": hello,
    "client": client,
    "create": create,
    "call": call,
    "closeClient": close_client,
    "close": close,
}


def main() -> None:
    """Answer each request with its id. The end of the input is the end of the program."""
    for line in sys.stdin:
        request = json.loads(line)
        method = METHODS.get(request["method"], no_such_method)
        try:
            answer = method(request["id"], request.get("on"), request.get("params", {}))
        except Unsupported as reason:
            answer = {"unsupported": str(reason)}
        sys.stdout.write(json.dumps({"id": request["id"], **answer}) + "\n")
        sys.stdout.flush()  # each answer at once: the runner waits for it


if __name__ == "__main__":
    main()
