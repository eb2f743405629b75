"""The key `pushbackd` of a case as a table: our own section about what servers saw.

It has no `Since`: the section is ours, and files of every version may have it. Each part carries its
description beside it instead of in `descriptions`, since nobody else documents it; docs/WITNESS.md is the
page for authors. `server_side.build` makes its values, and checks there what a schema cannot say: names of
rules, errors and servers, a first attempt with a gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from driver.editions import EDITIONS
from harness.adapters.base import Feature
from harness.unified.schema.notation import ANYTHING, BOOLEAN, OBJECT, STRING, array, record, word

if TYPE_CHECKING:
    from harness.unified.schema.notation import Schema


def _told(what: Schema, text: str) -> Any:
    """Return a part of the table with the text that an editor shows for it."""
    return {**what, "description": text} if isinstance(what, dict) else {"description": text}


def _or_range(kind: str, *more: str, signed: bool = False) -> dict[str, Any]:
    """Return a number, or the smallest and the largest of a range; without `signed`, none below 0.

    An empty mapping is refused: a range without ends would hold for everything.
    """
    number = {"type": kind} if signed else {"type": kind, "minimum": 0}
    return {
        "type": [kind, "object", *more],
        "properties": {
            "min": _told(number, "The smallest number that will do."),
            "max": _told(number, "The greatest number that will do."),
        },
        "additionalProperties": False,
        "minProperties": 1,
    }


_COUNT: Final = _or_range("integer")
_SECONDS: Final = _or_range("number")
_NAMES: Final = array(STRING, at_least=1)
_NAME_OR_NAMES: Final[Schema] = {"type": ["string", "array"], "items": STRING, "minItems": 1}
_PROFILE: Final[Schema] = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+){1,2}$"}

RUN_ON: Final[Schema] = record(
    {
        "editions": _told(
            array(word(*EDITIONS), at_least=1),
            "Editions of Client Backpressure that the case holds for; both without it.",
        ),
        "time": _told(word("virtual", "real"), "The case makes sense on this kind of clock only."),
        "features": _told(
            array(word(*(feature.name for feature in Feature)), at_least=1),
            "Features of the driver's adapter that the case needs.",
        ),
        "profile": _told(
            record(
                {
                    "min": _told(_PROFILE, "The first release, such as 8.2."),
                    "max": _told(_PROFILE, "The last release, such as 9.0."),
                },
                at_least=1,
            ),
            "Version profiles of the servers that the case holds for, both ends included.",
        ),
    },
    at_least=1,
)

ATTEMPT: Final[Schema] = record(
    {
        "meets": _told(
            {"type": ["string", "integer", "array"], "items": {"type": ["string", "integer"]}, "minItems": 1},
            "How the attempt ended: ok, an error's code or name, disconnect (closed by the server) "
            "or silence (the server did not answer); or a list of alternatives.",
        ),
        "on": _told(
            STRING,
            "The server: primary, secondary, mongos, a name such as node1; same or another than the attempt "
            "before; not overloaded (none that told this operation of its overload, while there is one).",
        ),
        "gap": _told(
            _or_range("number", "string"),
            "The time between the end of the attempt before and this one: none, overload backoff, full "
            "overload backoff or transaction backoff (with ', attempt N' for the number of the retry), or "
            "seconds.",
        ),
        "carries": _told(OBJECT, "The command's document, matched as a root document."),
        "same": _told(_NAMES, "Fields that are equal to those of the first attempt."),
        "newer": _told(_NAMES, "Fields that are greater than in the attempt before, or were absent there."),
        "omits": _told(_NAMES, "Fields that the command does not have."),
        "size": _told(
            record({"max": _told({"type": "integer", "minimum": 1}, "The most bytes.")}, ("max",)),
            "The size of the message in bytes.",
        ),
        "connection": _told(
            word("same", "another"), "Whether it came on the connection of the attempt before."
        ),
        "compressor": _told(
            word("none", "snappy", "zlib", "zstd", "noop"), "What the message was compressed by."
        ),
    },
)

_ATTEMPTS: Final[Schema] = record(
    {
        "command": _told(_NAME_OR_NAMES, "The name of the commands that this is about, or several."),
        "namespace": _told(STRING, "Only commands on this database.collection."),
        "appName": _told(STRING, "Only commands of clients with this appName (uriOptions)."),
        "comment": _told(ANYTHING, "Only commands with this comment."),
        "session": _told(STRING, "Only commands of this session entity."),
        "operations": _told(
            _COUNT,
            "How many operations sent such commands. An operation is one of the scenario, with all of its "
            "attempts. Without it there is one where attempts is given; else the number is not checked.",
        ),
        "count": _told(
            _or_range("integer", "string"),
            "How many attempts each operation had: a number, a range, or 'overload retries + 1': the number "
            "of the edition, or of the client's maxAdaptiveRetries.",
        ),
        "attempts": _told(array(ATTEMPT, at_least=1), "All attempts of the operation, in their order."),
        "first": _told(ATTEMPT, "The first attempt of each operation."),
        "retries": _told(ATTEMPT, "Every attempt but the first of each operation."),
        "each": _told(ATTEMPT, "Every attempt of each operation."),
        "last": _told(ATTEMPT, "The last attempt of each operation."),
        "jitter": _told(
            word("uniform"),
            "The overload backoffs of all operations, at least 40, are spread uniformly over their bounds, "
            "or the waits of withTransaction before it begins anew.",
        ),
    },
    ("command",),
)

_CONNECTION: Final[Schema] = record(
    {
        "hello": _told(OBJECT, "The first command of the connection, matched as a root document."),
        "commands": _told(array(STRING), "The commands that it carried, in order."),
        "authentication": _told(array(STRING), "The commands between hello and the first operation."),
        "closedBy": _told(word("client", "server", "nobody"), "The side that closed it."),
        "compressed": _told(array(STRING), "The commands whose messages were compressed, in order."),
        "streamed": _told(
            BOOLEAN,
            "Whether any of its commands allowed several replies (exhaustAllowed).",
        ),
    },
    at_least=1,
)

_CONNECTIONS: Final[Schema] = record(
    {
        "appName": _told(STRING, "Only connections of clients with this appName (uriOptions)."),
        "on": _told(STRING, "Only connections to this server: primary, secondary, each, or a name."),
        "monitoring": _told(BOOLEAN, "Connections of monitors instead of those that operations use."),
        "established": _told(_COUNT, "How many were accepted since the entities of the case were made."),
        "atOnce": _told(_COUNT, "How many were being established at the same time, at most."),
        "open": _told(_COUNT, "How many were open at one time, at most."),
        "openAtEnd": _told(_COUNT, "How many were open when the operations had ended, or a second later."),
        "idle": _told(_SECONDS, "The longest time in seconds that one was idle before a command."),
        "each": _told(_CONNECTION, "Every connection."),
        "connections": _told(array(_CONNECTION, at_least=1), "All connections, in order of establishment."),
        "closedInOrder": _told(
            array({"type": "integer", "minimum": 0}),
            "Indexes (in order of establishment) of connections, in the order in which they were closed.",
        ),
    },
    at_least=1,
)

_METRIC: Final[Schema] = record(
    {
        "on": _told(STRING, "The server: primary, each, any, or a name such as node0 or mongos0."),
        "path": _told(STRING, "The path of the metric in serverStatus."),
        "change": _told(
            _or_range("number", signed=True), "Its value after the operations minus the one before them."
        ),
        "value": _told(ANYTHING, "Its value at the end."),
    },
    ("path",),
)

SERVER_SIDE: Final[Schema] = _told(
    record(
        {
            "runOn": _told(RUN_ON, "Where the case runs; elsewhere it is skipped."),
            "expectAttempts": _told(
                array(_ATTEMPTS, at_least=1), "What servers saw of operations: the attempts of each."
            ),
            "expectConnections": _told(
                array(_CONNECTIONS, at_least=1), "What servers saw of clients' connections."
            ),
            "expectMetrics": _told(array(_METRIC, at_least=1), "Counters of the servers' serverStatus."),
            "expectRules": _told(
                _NAME_OR_NAMES, "Rules that no operation of the case may break: all, or some by name."
            ),
        },
        at_least=1,
    ),
    "What servers are to have seen of the case: a key of pushbackd's own.",
)
"""The key of a case."""
