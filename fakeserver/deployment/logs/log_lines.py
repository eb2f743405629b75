"""The lines of a log that events of the journal make, with a mongod's number where it has the message.

Numbers from 99,000,001 on are ours: a mongod's come from the numbers of its tickets, and are far below.
Events that may come thousands of times a second are `COUNTED`: a line a second says how many there were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.deployment.records.events import (
    ConnectionClosed,
    Event,
    FailPointHit,
    FailPointSet,
    FaultHit,
    ParameterSet,
    PrimaryElected,
    PrimarySteppedDown,
    RuleHit,
    ServerChanged,
)
from fakeserver.settings.failpoints import FAIL_COMMAND
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


VERB: Final = 99_000_001
REJECTED: Final = 99_000_002
_CHANGED: Final = 99_000_003
_FAIL_POINT_HIT: Final = 99_000_004
_RULE_HIT: Final = 99_000_005
_FAULT_HIT: Final = 99_000_006

_TRANSITION: Final = ("REPL", 21358, "Replica set state transition")
_STARTED: Final = "started"
_FAIL_COMMAND: Final = {
    "close": (20431, "Failing command via 'failCommand' failpoint: closing connection"),
    "error": (20435, "Failing command via 'failCommand' failpoint"),
    "block": (20432, "Blocking command via 'failCommand' failpoint"),
}


class Line(NamedTuple):
    """A message: `number` is a mongod's, or ours."""

    component: str
    number: int
    message: str
    context: str
    attr: Mapping[str, Any]
    severity: str = "I"
    level: int = 0

    @property
    def about(self) -> dict[str, Any]:
        """What a log is told beside the message."""
        return {"context": self.context, "attr": self.attr, "severity": self.severity, "level": self.level}


def lines_of(event: Event) -> Sequence[Line]:
    """Return the lines of an event that is `LOGGED`."""
    return LOGGED[type(event)](event)


def counted_line(event: FailPointHit | RuleHit | FaultHit) -> Line:
    """Return the line of an event that is counted, without its count."""
    if isinstance(event, FailPointHit):
        known = _FAIL_COMMAND.items() if event.name == FAIL_COMMAND else ()
        told = (line for effect, line in known if effect in event.effect)
        number, message = next(told, (_FAIL_POINT_HIT, "Fail point met"))
        attr = {"failPoint": event.name, "command": event.command, "effect": event.effect}
        return Line("COMMAND", number, message, "failpoint", attr)
    if isinstance(event, RuleHit):
        attr = {"rule": event.name, "command": event.command, "effect": event.effect}
        return Line("COMMAND", _RULE_HIT, "Rule met", "rules", attr)
    attr = {"fault": event.fault, "phase": event.phase, "effect": event.effect}
    return Line("NETWORK", _FAULT_HIT, "Fault of bytes met", "faults", attr)


def rejected_line(queue: str) -> Line:
    """Return the line of requests that a mechanism of admission control rejected, without their count."""
    message = "Requests rejected by admission control"
    return Line("NETWORK", REJECTED, message, "admission", {"mechanism": queue}, "W")


def _elected(event: PrimaryElected) -> Sequence[Line]:
    won = "Election succeeded, assuming primary role"
    states = {"newState": "PRIMARY", "oldState": "SECONDARY"}
    return (
        Line("ELECTION", 21450, won, "ReplCoord", {"term": event.term}),
        Line(*_TRANSITION, "ReplCoord", states),
    )


def _stepped_down(event: PrimarySteppedDown) -> Sequence[Line]:
    attr = {"newState": "SECONDARY", "oldState": "PRIMARY", "term": event.term}
    return (Line(*_TRANSITION, "ReplCoord", attr),)


def _fail_point_set(event: FailPointSet) -> Sequence[Line]:
    setting = {"mode": event.mode, "data": event.data or {}}
    attr = {"failPointName": event.name, "failPoint": setting}
    return (Line("-", 23829, "Set failpoint", "failpoint", attr, "W"),)


def _parameter_set(event: ParameterSet) -> Sequence[Line]:
    attr = {"parameterName": event.name, "newValue": event.new, "oldValue": event.old}
    return (Line("COMMAND", 23435, "Successfully set parameter to new value", "setParameter", attr),)


def _server_changed(event: ServerChanged) -> Sequence[Line]:
    attr = {"change": event.change} | ({"detail": event.detail} if event.detail else {})
    if event.change == _STARTED:
        return (Line("CONTROL", 4615611, "MongoDB starting", "initandlisten", attr),)
    return (Line("CONTROL", _CHANGED, "Server changed", "control", attr, "W"),)


def _closed(event: ConnectionClosed) -> Sequence[Line]:
    if event.reason != "peer":
        return ()
    code = ErrorCode.HOST_UNREACHABLE
    error = {"code": int(code), "codeName": code.code_name, "errmsg": "Connection closed by peer"}
    lost = "Session from remote encountered a network error during SourceMessage"
    return (Line("EXECUTOR", 22986, lost, f"conn{event.connection}", {"error": error}, level=2),)


LOGGED: Final[Mapping[type, Callable[[Any], Sequence[Line]]]] = {
    PrimaryElected: _elected,
    PrimarySteppedDown: _stepped_down,
    FailPointSet: _fail_point_set,
    ParameterSet: _parameter_set,
    ServerChanged: _server_changed,
    ConnectionClosed: _closed,
}
"""The events that are logged as they come."""

COUNTED: Final = (FailPointHit, RuleHit, FaultHit)
"""The events that are counted."""
