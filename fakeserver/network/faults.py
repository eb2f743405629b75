"""Faults of bytes: what a client's network may do to it, as strict documents.

    {at: reply, byte: 10, command: find, times: 1, do: {reset: true}}

`at` is the phase of a connection at which the fault acts, `do` its effects, and the other fields say which
connections and messages it is for. This module knows the forms alone: `fault_effects` has the effects,
`fault_registry` decides when a fault fires, `fault_steps` in which steps a reply is sent, the layers perform
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from fakeserver.network.fault_effects import EFFECTS, FaultEffects, parse_effects, positive
from mongowire.documents import arguments
from mongowire.documents.errors import ControlError, unknown
from mongowire.documents.occurrence import Occurrence, check_exclusive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


class FaultPhase(Enum):
    """The phases of a connection at which a fault acts."""

    ACCEPT = "accept"
    """A connection was accepted."""
    TLS_HELLO = "tlsHello"
    """The client's TLS hello has arrived."""
    HANDSHAKE = "handshake"
    """The first hello of the connection has arrived."""
    SASL_START = "saslStart"
    """An authentication begins: a saslStart, or a hello with `speculativeAuthenticate`."""
    SASL_CONTINUE = "saslContinue"
    """A saslContinue has arrived."""
    REQUEST_HEADER = "requestHeader"
    """The 16 bytes of a request's header have arrived; it does not run yet."""
    REQUEST_BODY = "requestBody"
    """`byte` bytes behind the header have arrived, by default 1; the request does not run yet."""
    BEFORE_REPLY = "beforeReply"
    """A request has run, and its reply is about to be sent."""
    REPLY = "reply"
    """`byte` bytes of a reply have been sent, by default none."""
    CLOSE = "close"
    """The server closes the connection."""


REQUESTS: Final = frozenset(
    {
        *(FaultPhase.HANDSHAKE, FaultPhase.SASL_START, FaultPhase.SASL_CONTINUE),
        *(FaultPhase.REQUEST_HEADER, FaultPhase.REQUEST_BODY),
    }
)
"""The phases of a request: what they do to bytes that are sent, they do to its reply."""

_REPLIES: Final = REQUESTS | {FaultPhase.BEFORE_REPLY, FaultPhase.REPLY}
_KNOWS_COMMAND: Final = _REPLIES - {FaultPhase.REQUEST_HEADER}
_HAS_BYTE: Final = frozenset({FaultPhase.REQUEST_BODY, FaultPhase.REPLY})


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `document` is its text as it was given."""

    id: str
    phase: FaultPhase
    effects: FaultEffects
    document: Mapping[str, Any] = field(repr=False)
    byte: int = 0
    node: str | None = None
    connection: int | None = None
    app_name: str | None = None
    commands: frozenset[str] = frozenset()
    occurrence: Occurrence = field(default_factory=Occurrence)

    @property
    def effect(self) -> str:
        """The names of its effects, for the journal."""
        return "+".join(self.document["do"])


def parse_fault(
    document: Mapping[str, Any],
    *,
    default_id: str = "fault",
    nodes: Collection[str] | None = None,
    commands: Collection[str] | None = None,
) -> Fault:
    """Read a fault. `nodes` and `commands` are the names that its filters may hold, None for any.

    Raises `ControlError` with the path of the field.
    """
    for name in document:
        if name not in FIELDS:
            raise unknown("field", name, FIELDS, path=())
    for name, meaning in (("at", "the phase at which it acts"), ("do", "its effects")):
        if document.get(name) is None:
            raise ControlError(f"a fault needs {name}: {meaning}")
    check_exclusive(document)
    given = {
        _ATTRIBUTES.get(name, name): _read(FIELDS[name], name, value) for name, value in document.items()
    }
    occurrence = Occurrence(**{name: given.pop(name) for name in _OCCURRENCE.intersection(given)})
    phase: FaultPhase = given.pop("at")
    fault = Fault(
        id=given.pop("name", default_id),
        phase=phase,
        effects=parse_effects(
            given.pop("do"), phase.value, has_reply=phase in _REPLIES, at_close=phase is FaultPhase.CLOSE
        ),
        document=dict(document),
        byte=given.pop("byte", 1 if phase is FaultPhase.REQUEST_BODY else 0),
        occurrence=occurrence,
        **given,
    )
    _check_fields(fault, document)
    if fault.node is not None and nodes is not None and fault.node not in nodes:
        raise unknown("node", fault.node, nodes, path=("node",))
    if commands is not None:
        for command in sorted(fault.commands.difference(commands)):
            raise unknown("command", command, commands, path=("command",))
    return fault


def _check_fields(fault: Fault, document: Mapping[str, Any]) -> None:
    """Refuse fields that mean nothing at the fault's phase. Raises `ControlError`."""
    phase = fault.phase.value
    if "byte" in document and fault.phase not in _HAS_BYTE:
        raise ControlError(
            f"at {phase} there are no bytes to count; use requestBody or reply", path=("byte",)
        )
    if fault.phase is FaultPhase.REQUEST_BODY and not fault.byte:
        raise ControlError("the bytes of a body are counted from 1", path=("byte",))
    edit = next((name for name in document["do"] if EFFECTS[name].of_replies), None)
    if edit is not None and fault.byte and fault.phase is FaultPhase.REPLY:
        raise ControlError(f"{edit} changes the whole reply; leave out byte", path=("byte",))
    if fault.commands and fault.phase not in _KNOWS_COMMAND:
        raise ControlError(
            f"at {phase} the command is not known; use requestBody, beforeReply or reply", path=("command",)
        )


def _read(parse: Callable[[Any], Any], name: str, value: Any) -> Any:
    try:
        return parse(value)
    except ControlError as error:
        raise error.within(name) from None


def _phase(value: Any) -> FaultPhase:
    try:
        return FaultPhase(value)
    except ValueError:
        raise unknown("phase", value, [each.value for each in FaultPhase]) from None


def _lasting(value: Any) -> float:
    seconds = arguments.duration(value)
    if not seconds:
        raise ControlError("it would be over at once; write a duration such as '5s'")
    return seconds


_ATTRIBUTES: Final = {
    "appName": "app_name",
    "command": "commands",
    "for": "seconds",
}
"""The attributes of fields that Python calls otherwise."""

_OCCURRENCE: Final = frozenset({"nth", "every", "times", "seconds", "probability"})

FIELDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "name": arguments.text,
    "at": _phase,
    "byte": arguments.count,
    "do": arguments.document,
    "node": arguments.text,
    "connection": positive(arguments.count),
    "appName": arguments.text,
    "command": lambda value: frozenset(arguments.names(value)),
    "nth": positive(arguments.count),
    "every": positive(arguments.count),
    "times": positive(arguments.count),
    "for": _lasting,
    "probability": arguments.share,
}
"""The fields of a fault's document, with their readers."""
