"""The schema of fail points: modes, and the fields of the data, by the name of the fail point.

A server does not check the data when a fail point is set: a value that cannot be used fails the command that
meets it, or has no effect. So a wrong type is an error of the scenario.

Unified Test Format: failPoint.

The names come from the fake server, the types and sentences stand here. Lint asks `wrong_mode` and
`wrong_data`, the schema for editors reads the tables. A name that is not in `DATA` is let through with any
data: it may be one that a real server has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.settings import failpoints as names
from harness.unified.schema.arguments import (
    BOOLEAN,
    DOCUMENT,
    INTEGER,
    NUMBER,
    WORD,
    WORDS,
    Argument,
    wrong_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.unified.schema.arguments import ValueType

MODES: Final = ("off", "alwaysOn")
_INT32_MAX: Final = (1 << 31) - 1

MODE_FIELDS: Final[Mapping[str, Argument]] = {
    "times": Argument(INTEGER, "Number of hits after which the fail point is off; 0 fires once."),
    "skip": Argument(INTEGER, "Number of matches that pass before the fail point fires on each."),
    "activationProbability": Argument(NUMBER, "Probability, from 0 to 1, with which a match is a hit."),
}

FIELDS: Final[Mapping[str, Argument]] = {
    "configureFailPoint": Argument(WORD, "Name of the fail point."),
    "mode": Argument(DOCUMENT, "When it fires: off, alwaysOn, {times}, {skip} or {activationProbability}."),
    "data": Argument(DOCUMENT, "Which commands it is about, and what happens to them."),
}
"""The fields of the command."""

_FILTERS: Final[Mapping[str, Argument]] = {
    "appName": Argument(WORD, "Only commands of clients with this application name."),
    "threadName": Argument(WORD, "Only commands on this thread of the server, such as conn42."),
    "namespace": Argument(WORD, "Only commands on this database.collection."),
    "failInternalCommands": Argument(BOOLEAN, "Whether commands of other servers match, too."),
    "failLocalClients": Argument(BOOLEAN, "Whether clients without a network connection match, too."),
    "failDirectClientCommands": Argument(BOOLEAN, "Whether the server's own direct clients match."),
    "priorityPortOnly": Argument(BOOLEAN, "Only commands on connections of the priority port."),
}
_COMMAND: Final[Mapping[str, Argument]] = {
    "failCommands": Argument(WORDS, "Names of the commands that fail."),
    "failAllCommands": Argument(BOOLEAN, "Whether all commands fail, other than configureFailPoint."),
    "failCommandsExcept": Argument(WORDS, "With failAllCommands: names of the commands that do not fail."),
    "errorCode": Argument(INTEGER, "Code of the error with which commands fail; 0 is none."),
    "errorMsg": Argument(WORD, "Message of the error."),
    "errorExtraInfo": Argument(DOCUMENT, "Further fields of the error."),
    "errorLabels": Argument(WORDS, "Labels of the error, in place of the server's own."),
    "writeConcernError": Argument(DOCUMENT, "Write concern error that is added to the reply."),
    "closeConnection": Argument(BOOLEAN, "Whether the connection is closed without a reply."),
    "blockConnection": Argument(BOOLEAN, "Whether commands wait first, for blockTimeMS."),
    "blockTimeMS": Argument(NUMBER, "Time for which commands wait, in milliseconds."),
    "tassert": Argument(BOOLEAN, "Whether the error is raised as a tripwire assertion."),
    "allowRewriteStateChange": Argument(BOOLEAN, "Whether a mongos rewrites state change errors."),
    **_FILTERS,
}
_CODE: Final = {"errorCode": Argument(INTEGER, "Code of the error.")}
_HELLO: Final[Mapping[str, Argument]] = {
    "internalClient": Argument(BOOLEAN, "Only hellos of other servers."),
    "notInternalClient": Argument(BOOLEAN, "Only hellos of clients."),
    "delayMillis": Argument(NUMBER, "Delay in milliseconds; without it until the fail point is off."),
}
_HELLO_OK: Final = {"threadName": Argument(WORD, "Only on this thread of the server.")}

DATA: Final[Mapping[str, Mapping[str, Argument]]] = {
    names.FAIL_COMMAND: _COMMAND,
    # Public scenarios give it the fields of `failCommand`; those that are not its own have no effect.
    names.FAIL_GET_MORE: _COMMAND,
    names.ON_PRIMARY_TRANSACTIONAL_WRITE: {
        "closeConnection": Argument(BOOLEAN, "Whether the connection is closed; true unless given."),
        "failBeforeCommitExceptionCode": Argument(INTEGER, "Code with which the statement fails, unapplied."),
    },
    names.FAIL_IN_RUN_COMMAND: _CODE,
    names.FAIL_AFTER_SESSION_CHECK_OUT: _CODE,
    names.FRACTIONAL_RATE_OVERRIDE: {"rate": Argument(NUMBER, "Rate of the limiter, in requests a second.")},
    names.FLOW_CONTROL_TICKET_OVERRIDE: {"numTickets": Argument(INTEGER, "Locks that writers get a second.")},
    **dict.fromkeys(names.WAIT_IN_HELLO, _HELLO),
    **dict.fromkeys(names.APPEND_HELLO_OK, _HELLO_OK),
    names.DELAY_OR_FAIL_SEND: {
        "millis": Argument(NUMBER, "Delay of the reply in milliseconds; without it the reply is not sent."),
        "appName": Argument(WORD, "Only replies to clients with this application name."),
    },
}
"""The fields of `data`; a fail point that is not here has none."""

NAMES: Final = names.NAMES


def wrong_mode(mode: Any) -> str:
    """Return what is wrong with a decoded `mode`, empty for one that a server takes."""
    if isinstance(mode, str):
        return "" if mode in MODES else f"{mode!r} is no mode"
    if not isinstance(mode, dict):
        return "must be off, alwaysOn or a document"
    known = [name for name in MODE_FIELDS if name in mode]
    if len(mode) != 1 or not known:
        return "must be a document with one field"
    (name,) = known
    value, of = mode[name], MODE_FIELDS[name].type
    # Servers refuse a mode beyond these: a probability is 1 at most, counts are integers of 32 bits.
    most = 1 if of is NUMBER else _INT32_MAX
    wrong = wrong_type(of, value)
    if wrong:
        return f"{name} {wrong}"
    return "" if 0 <= float(str(value)) <= most else f"{name} must be from 0 to {most}, is {value}"


def wrong_data(name: str, data: Mapping[str, Any]) -> Iterator[tuple[str, ValueType, str]]:
    """Yield the fields of decoded `data` that have a wrong type: field, type, and what is wrong."""
    fields = DATA.get(name, {})
    for field, value in data.items():
        if field in fields and (wrong := wrong_type(fields[field].type, value)):
            yield field, fields[field].type, wrong
