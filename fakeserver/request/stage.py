"""A stage of the path of a request, and what it answers (`request.pipeline` has their order).

    Step    a position in an order
    Stage   an object at a step: `enter` on the way in, `leave` on the way out; several may share a step
    Action  the answer of `enter`; the first that is not `PASS` ends the walk, or interrupts it
    Shape   the names of a command's fields and the types of their values

A stage says three things beside, all of them about work that it has not: which commands it never concerns
(`concerns`), which shapes of a command it lets pass as its server stands (`entry`), and whether it has
anything to take back of a request that succeeded at once (`exit`). `request.path` leaves out what they name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from fakeserver.waiting.pause import Await, Delay

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.errors import CommandError
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.path import Paused


class Response(Protocol):
    """The response of a request, as far as the walk has a part in it."""

    failure: CommandError | None
    write_concern_error: Any


class Request(Protocol):
    """A request, as far as the walk knows it; stages know it whole."""

    paused: Paused | None
    """Its position while it waits, None otherwise."""
    spec: CommandSpec
    """The command, from `Step.LOOKUP` on."""
    command: dict[str, Any] | None
    """Its document, from `Step.PARSE` on."""
    brief: bool
    """It is so small that no stage up to `Step.EXECUTE` gives way to others."""
    node: Any
    """The server that has it."""

    @property
    def response(self) -> Response:
        """The response, as it comes about."""


class Step(Enum):
    """The positions at which something may happen to a request."""

    RATE_LIMIT = "rate limit"
    CLUSTER_TIME = "cluster time"
    PARSE = "parse"
    LOOKUP = "look up the command"
    AUTHENTICATION = "require authentication"
    BODY = "validate the body"
    LABELS = "error labels"
    CLIENT_METADATA = "client metadata"
    SESSION = "session fields"
    FAIL_POINTS = "fail points"
    RULES = "rules"
    ELIGIBILITY = "database and eligibility"
    AUTHORIZATION = "authorization"
    REPLICA_STATE = "replica state"
    DEADLINE = "deadline"
    RATE_LIMIT_QUEUE = "rate limit queue"
    TICKETS = "tickets"
    READ_CONCERN = "read concern"
    FLOW_CONTROL = "flow control"
    EXECUTION_CONTROL = "execution control"
    EXECUTE = "execute"
    WRITE_CONCERN = "write concern"


class Pass(Enum):
    """Go on to the next stage."""

    PASS = "go on"  # noqa: S105 - no password


class Respond(Enum):
    """Answer with what the request holds: its failure, else its body."""

    RESPOND = "respond"


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection without an answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Silence:
    """Give no answer, and leave the connection open."""

    reason: str


Action: TypeAlias = Pass | Respond | Delay | Await | Disconnect | Silence
PASS: Final = Pass.PASS
RESPOND: Final = Respond.RESPOND


class Outcome(Enum):
    """The outcome of a request for a stage that it leaves."""

    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"
    """It never came to run."""


class HangUp(Exception):  # noqa: N818 - it is not an error of ours
    """Raised by a command whose connection is to be closed without an answer."""


class Stage:
    """Something at one step. It overrides `enter`, `leave` or both, with the request's own type."""

    step: Step
    enters: ClassVar[bool] = False
    """Whether it overrides `enter`."""
    leaves: ClassVar[bool] = False
    """Whether it overrides `leave`."""

    def __init_subclass__(cls) -> None:
        """Note what the class overrides: it is asked of each stage of each server."""
        super().__init_subclass__()
        cls.enters = cls.enter is not Stage.enter
        cls.leaves = cls.leave is not Stage.leave

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:  # noqa: ARG003 - for overriding
        """Say whether it can ever do anything to a command, so that others need not pass it.

        Asked once for each command, of stages behind `Step.LOOKUP`; servers with the same stages share it.
        """
        return True

    def enter(self, request: Any, now: float) -> Action:  # noqa: ARG002 - for overriding
        """Return the next action. Raises `CommandError` to answer the request with an error."""
        return PASS

    def leave(self, request: Any, outcome: Outcome, now: float) -> None:
        """Undo or add to what was done; called for each stage entered, the innermost first."""

    # What it leaves undone, asked when a path is compiled (`request.path`). An answer may rest on the shape,
    # on what never changes, and on what has `Pipeline.recompile` called when it changes.

    def entry(self, spec: CommandSpec | None, shape: Shape, node: Any) -> Enter | None:  # noqa: ARG002 - for overriding
        """Return what `enter` comes to for a command of a shape, as the server stands; None for `PASS`.

        Up to `Step.LOOKUP` nothing is known yet: the command is None, and the shape that of nothing.
        """
        return self.enter

    def exit(self, spec: CommandSpec, shape: Shape, node: Any) -> Leave | None:  # noqa: ARG002 - for overriding
        """Return what `leave` comes to for a command that succeeded in one walk; None for nothing.

        Such a one has not waited, has neither failed nor a `writeConcernError`, and its instant of leaving is
        that of its entry. Where the command changed how the server stands, `leave` itself is called.
        """
        return self.leave

    def screen(self, node: Any) -> Screen | None:  # noqa: ARG002 - for overriding
        """Return how it decides on a request that nobody has made yet, None where it needs one."""
        return None


class Shape(NamedTuple):
    """The names of a command's fields, in its order, and the types of their values."""

    names: tuple[str, ...] = ()
    types: tuple[type, ...] = ()


Enter: TypeAlias = "Callable[[Any, float], Action]"
Leave: TypeAlias = "Callable[[Any, Outcome, float], None]"
Screen: TypeAlias = "Callable[[Any, float], Any]"
"""Decides by a connection and an instant."""
