"""Faults of bytes: what a client's network may do to it, as strict documents.

    {at: reply, byte: 10, command: find, times: 1, do: {reset: true}}

`at` is the phase of a connection at which the fault acts, `do` its effects, and the other fields say which
connections and messages it is for. This module knows the forms alone: `fault_registry` decides when a fault
fires, `fault_steps` what becomes of a reply, the layers perform it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from fakeserver.control import arguments
from fakeserver.control.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


class Phase(Enum):
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
        *(Phase.HANDSHAKE, Phase.SASL_START, Phase.SASL_CONTINUE),
        *(Phase.REQUEST_HEADER, Phase.REQUEST_BODY),
    }
)
"""The phases of a request: what they do to bytes that are sent, they do to its reply."""

_REPLIES: Final = REQUESTS | {Phase.BEFORE_REPLY, Phase.REPLY}
_KNOWS_COMMAND: Final = _REPLIES - {Phase.REQUEST_HEADER}
_HAS_BYTE: Final = frozenset({Phase.REQUEST_BODY, Phase.REPLY})
_EDITS: Final = ("responseTo", "length", "checksum", "truncate")
_ENDS: Final = ("cut", "reset", "halfOpen")
_AT_CLOSE: Final = ("delay", "jitter", "reset", "halfOpen", "garbage")
_INT32: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of one fault, `do` in its document; those that are not asked for are None or false."""

    delay: float = 0.0
    """Seconds."""
    jitter: float = 0.0
    """Up to so many seconds more."""
    bandwidth: int | None = None
    """Bytes a second."""
    cut: int | None = None
    """The connection is closed behind so many bytes more."""
    split: int | None = None
    """The size of the pieces that bytes are sent in."""
    reset: bool = False
    half_open: bool = False
    garbage: int | None = None
    """Random bytes that are sent: so many."""
    response_to: int | None = None
    length: int | None = None
    """The `messageLength` of the reply's header."""
    bad_checksum: bool = False
    truncate: int | None = None
    """The bytes that are missing at the end of the reply, whose header agrees with what is left."""
    duplicate: bool = False

    @property
    def acts_on_requests(self) -> bool:
        """Whether it does something before the request runs."""
        return bool(self.delay or self.jitter or self.reset or self.half_open or self.cut == 0)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `document` is its text as it was given."""

    id: str
    phase: Phase
    effects: Effects
    document: Mapping[str, Any] = field(repr=False)
    byte: int = 0
    node: str | None = None
    connection: int | None = None
    app_name: str | None = None
    commands: frozenset[str] = frozenset()
    nth: int | None = None
    every: int | None = None
    times: int | None = None
    seconds: float | None = None
    """The time for which it lasts (`for`)."""
    probability: float = 1.0

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
    given = {name: _read(FIELDS[name], name, value) for name, value in document.items()}
    phase: Phase = given.pop("at")
    fault = Fault(
        id=given.pop("name", default_id),
        phase=phase,
        effects=parse_effects(given.pop("do"), phase),
        document=dict(document),
        byte=given.pop("byte", 1 if phase is Phase.REQUEST_BODY else 0),
        **{_ATTRIBUTES.get(name, name): value for name, value in given.items()},
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
    if fault.phase is Phase.REQUEST_BODY and not fault.byte:
        raise ControlError("the bytes of a body are counted from 1", path=("byte",))
    edit = next((name for name in (*_EDITS, "duplicate") if name in document["do"]), None)
    if edit is not None and fault.byte and fault.phase is Phase.REPLY:
        raise ControlError(f"{edit} changes the whole reply; leave out byte", path=("byte",))
    if fault.commands and fault.phase not in _KNOWS_COMMAND:
        raise ControlError(
            f"at {phase} the command is not known; use requestBody, beforeReply or reply", path=("command",)
        )


def parse_effects(document: Mapping[str, Any], phase: Phase) -> Effects:
    """Read the effects of a fault at `phase`. Raises `ControlError` with the path of the effect."""
    if not document:
        raise ControlError(f"no effect is given; known are {', '.join(sorted(EFFECTS))}", path=("do",))
    given = {}
    for name, value in document.items():
        if name not in EFFECTS:
            raise unknown("effect", name, EFFECTS, path=("do",))
        if name in (*_EDITS, "duplicate") and phase not in _REPLIES:
            raise ControlError(
                f"{name} changes a reply, and at {phase.value} there is none", path=("do", name)
            )
        if phase is Phase.CLOSE and name not in _AT_CLOSE:
            raise ControlError(
                f"{name} has no meaning at close; known there are {', '.join(_AT_CLOSE)}", path=("do", name)
            )
        given[_ATTRIBUTES.get(name, name)] = _read(EFFECTS[name], name, value, "do")
    ends = [name for name in _ENDS if name in document]
    if len(ends) > 1:
        raise ControlError(f"{ends[0]} and {ends[1]} exclude each other", path=("do", ends[1]))
    return Effects(**given)


def _read(parse: Callable[[Any], Any], name: str, value: Any, *outer: str) -> Any:
    try:
        return parse(value)
    except ControlError as error:
        raise error.within(*outer, name) from None


def _phase(value: Any) -> Phase:
    try:
        return Phase(value)
    except ValueError:
        raise unknown("phase", value, [each.value for each in Phase]) from None


def _positive(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        number = parse(value)
        if not number:
            raise ControlError(f"{value!r} is too small; write 1 or more")
        return number

    return read


def _lasting(value: Any) -> float:
    seconds = arguments.duration(value)
    if not seconds:
        raise ControlError("it would be over at once; write a duration such as '5s'")
    return seconds


def _int32(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -_INT32 <= value < _INT32:
        raise ControlError(f"{value!r} is no int32")
    return int(value)


def _true(value: Any) -> bool:
    if arguments.flag(value) is not True:
        raise ControlError("write true, or leave it out")
    return True


def _bad(value: Any) -> bool:
    if value != "bad":
        raise ControlError(f"{value!r} is no checksum; write bad")
    return True


def _commands(value: Any) -> frozenset[str]:
    return frozenset(arguments.names(value))


_ATTRIBUTES: Final = {
    "appName": "app_name",
    "command": "commands",
    "for": "seconds",
    "halfOpen": "half_open",
    "responseTo": "response_to",
    "checksum": "bad_checksum",
}
"""The attributes of fields and effects that Python calls otherwise."""

FIELDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "name": arguments.text,
    "at": _phase,
    "byte": arguments.count,
    "do": arguments.document,
    "node": arguments.text,
    "connection": _positive(arguments.count),
    "appName": arguments.text,
    "command": _commands,
    "nth": _positive(arguments.count),
    "every": _positive(arguments.count),
    "times": _positive(arguments.count),
    "for": _lasting,
    "probability": arguments.share,
}
"""The fields of a fault's document, with their readers."""

EFFECTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "delay": arguments.duration,
    "jitter": arguments.duration,
    "bandwidth": _positive(arguments.size),
    "cut": arguments.count,
    "split": _positive(arguments.size),
    "reset": _true,
    "halfOpen": _true,
    "garbage": _positive(arguments.size),
    "responseTo": _int32,
    "length": _int32,
    "checksum": _bad,
    "truncate": _positive(arguments.count),
    "duplicate": _true,
}
"""The effects of a fault, with their readers."""
