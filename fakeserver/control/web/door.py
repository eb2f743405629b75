"""`POST /control/{verb}`, and `GET /control`: the table of verbs."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from bson import json_util
from starlette.responses import Response

from fakeserver.control.verbs.table import VERBS
from mongowire.documents.arguments import Kind, from_json
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from fakeserver.control.verbs.form import Verb
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.spec import ClusterSpec


UNITS: Final = {
    Kind.DURATION: "a time with its unit: 200ms, 5s, 1m30s",
    Kind.SECONDS: "seconds, or a time with its unit: 200ms, 5s, 1m30s",
    Kind.RATE: "a rate with its unit: 20/s, 100/min",
    Kind.SHARE: "0 to 1, or a percentage: 2%",
    Kind.SIZE: "bytes, or a text: 16KB",
    Kind.SERVER: "name, address, primary, secondary or mongos",
    Kind.SERVERS: "names, parted by commas, or all",
    Kind.GROUPS: "groups parted by spaces, their members by commas: node0,clients node1,node2",
    Kind.CODES: "numbers or names, parted by commas",
    Kind.MODE: "alwaysOn, off, a number of times, or a JSON object",
    Kind.NAMES: "texts, parted by commas",
    Kind.DOCUMENT: "a JSON object",
    Kind.DOCUMENTS: "a JSON array of objects",
}
"""What a value of a kind is written in."""


class HttpDoor:
    """The verbs of one deployment over HTTP."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def table(self, _request: Request) -> Response:
        """Answer with every verb, and whether it is for this deployment."""
        return answer({"verbs": [row(verb, self._cluster.spec) for verb in VERBS]})

    async def perform(self, request: Request) -> Response:
        """Perform a verb with the arguments in the body, and answer with its document when it is over.

        What is wrong with the verb, the arguments or the deployment answers 400, an unknown verb 404.
        """
        name = request.path_params["verb"]
        try:
            VERBS[name]
        except ControlError as error:
            return failure(error, status=404)
        try:
            arguments = parsed(await request.body())
            return answer(await self._cluster.control.perform(name, arguments))
        except ControlError as error:
            return failure(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return failure(ControlError(f"the deployment stops, and {name} is not over"), status=503)


def answer(document: Mapping[str, Any], status: int = 200) -> Response:
    """Return a document as relaxed Extended JSON."""
    text = json_util.dumps(document, json_options=json_util.RELAXED_JSON_OPTIONS, ensure_ascii=False)
    return Response(text, status, media_type="application/json")


def failure(error: ControlError, status: int = 400) -> Response:
    """Return the answer for arguments that are wrong: the sentence, and the path of the field."""
    return answer({"error": error.message, "path": list(error.path)}, status)


def parsed(body: bytes) -> dict[str, Any]:
    """Return the object in a body; an empty body is an empty object. Raises `ControlError`."""
    if not body.strip():
        return {}
    try:
        text = body.decode()
        json.loads(text, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise ControlError(f"the body is no UTF-8: {error}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, ControlError):
            raise
        raise ControlError(f"the body is no JSON: {error}") from None
    document = from_json(text)
    if not isinstance(document, dict):
        raise ControlError('the body is no JSON object; write the arguments by name: {"seconds": 10}')
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ControlError("the field is there twice", path=(twice,))
    return document


def row(verb: Verb, spec: ClusterSpec) -> dict[str, Any]:
    """Return a row of the table."""
    return {
        "name": verb.name,
        "command": verb.command,
        "help": verb.help,
        "arguments": [
            {
                "name": each.name,
                "kind": each.kind.value,
                "unit": UNITS.get(each.kind, ""),
                "help": each.help,
                "required": each.is_required,
                "default": None if each.is_required else each.default,
                "known": list(each.known),
            }
            for each in verb.arguments
        ],
        "applies": verb.applies.value,
        "fits": verb.applies.covers(spec),
        "undoneBy": verb.undone_by,
        "reads": verb.reads,
    }
