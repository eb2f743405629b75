"""The steps of a request, in an order that is data, and the walk along them.

Nothing here waits: the walk returns what is to happen and is resumed with the time, so that a shell on
sockets and a simulator drive the same object.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from fakeserver.errors import CommandError
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fakeserver.commands.table import CommandSpec
    from fakeserver.request import RequestContext
    from fakeserver.waiting import Bell


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


class Place(NamedTuple):
    """A step's place in an order: why it is there, and the file of the server that shows it."""

    step: Step
    reason: str
    source: str


_MONGOD = "db/service_entry_point_shard_role.cpp"
_MONGOS = "s/commands/strategy.cpp"
_SESSION = "transport/session_workflow.cpp"
_PARSING = "db/commands.cpp"
_LOCKS = "db/admission/README.md"

MONGOD: Final = (
    Place(
        Step.RATE_LIMIT, "decides before anything is parsed, so a rejection costs next to nothing", _SESSION
    ),
    Place(Step.CLUSTER_TIME, "surrounds all that follows: a rejection above carries no time", _MONGOD),
    Place(Step.PARSE, "a message that cannot be read names no command", _SESSION),
    Place(Step.LOOKUP, "an unknown name is answered before its body is looked at", _MONGOD),
    Place(Step.AUTHENTICATION, "strangers learn nothing about the validity of a body", _MONGOD),
    Place(Step.BODY, "an invalid command consumes no fail point", _PARSING),
    Place(Step.LABELS, "surrounds all that follows: failures above carry no labels", _MONGOD),
    Place(Step.CLIENT_METADATA, "a fail point's appName holds for the first hello", _MONGOD),
    Place(Step.SESSION, "structure of lsid and txnNumber is checked before fail points", _MONGOD),
    Place(Step.FAIL_POINTS, "ahead of authorization and of the replica state", _MONGOD),
    Place(Step.RULES, "scripted behaviour sees what fail points let pass", "(ours)"),
    Place(Step.ELIGIBILITY, "retryable and transactional eligibility come after fail points", _MONGOD),
    Place(Step.AUTHORIZATION, "the database's validity is known", _MONGOD),
    Place(Step.REPLICA_STATE, "who may not run a command is not told where to run it", _MONGOD),
    Place(Step.DEADLINE, "armed late, counted from the arrival", _MONGOD),
    Place(Step.RATE_LIMIT_QUEUE, "a request admitted on credit waits here for its token", _MONGOD),
    Place(Step.TICKETS, "held for the run, not for the wait above", _MONGOD),
    Place(Step.READ_CONCERN, "the last check before the run", _MONGOD),
    Place(Step.FLOW_CONTROL, "writers ask it first, before the lock that needs a ticket", _LOCKS),
    Place(Step.EXECUTION_CONTROL, "the ticket of the lock; a run is where locks are taken", _LOCKS),
    Place(Step.EXECUTE, "the command runs", _MONGOD),
    Place(Step.WRITE_CONCERN, "waits also for a command that failed", _MONGOD),
)
"""The order of a mongod."""

MONGOS: Final = (
    Place(Step.RATE_LIMIT, "as on mongod", _SESSION),
    Place(Step.CLUSTER_TIME, "as on mongod", _MONGOS),
    Place(Step.PARSE, "as on mongod", _SESSION),
    Place(Step.LOOKUP, "as on mongod", _MONGOS),
    Place(Step.AUTHENTICATION, "as on mongod", _MONGOS),
    Place(Step.BODY, "as on mongod", _MONGOS),
    Place(Step.LABELS, "as on mongod", _MONGOS),
    Place(Step.SESSION, "structure of lsid and txnNumber", _MONGOS),
    Place(Step.ELIGIBILITY, "eligibility belongs to the structural checks here", _MONGOS),
    Place(Step.DEADLINE, "armed before fail points: a block beyond it is cut short", _MONGOS),
    Place(Step.RATE_LIMIT_QUEUE, "the wait is part of the deadline", _MONGOS),
    Place(Step.CLIENT_METADATA, "ahead of fail points, as on mongod", _MONGOS),
    Place(Step.FAIL_POINTS, "after the deadline, unlike mongod", _MONGOS),
    Place(Step.RULES, "as on mongod", "(ours)"),
    Place(Step.READ_CONCERN, "defaults are applied before authorization", _MONGOS),
    Place(Step.AUTHORIZATION, "the last check before the command goes to a shard", _MONGOS),
    Place(Step.TICKETS, "the shard's, like those of the two steps that follow", _MONGOD),
    Place(Step.FLOW_CONTROL, "as on mongod", _LOCKS),
    Place(Step.EXECUTION_CONTROL, "as on mongod", _LOCKS),
    Place(Step.EXECUTE, "the command runs", _MONGOS),
    Place(Step.WRITE_CONCERN, "the shards waited; fail points still add their error", _MONGOS),
)
"""The order of a mongos."""


# What a stage answers.


class Pass(Enum):
    """Go on to the next stage."""

    PASS = "go on"  # noqa: S105 - no password


class Respond(Enum):
    """Answer with what the request holds: its failure, else its body."""

    RESPOND = "respond"


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait until an instant, then go on to the next stage."""

    until: float


@dataclass(frozen=True, slots=True)
class Await:
    """Wait until the bell rings or an instant comes, then enter the same stage again."""

    bell: Bell | None = None
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection without an answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Silence:
    """Give no answer, and leave the connection open."""

    reason: str


Action: TypeAlias = Pass | Respond | Delay | Await | Disconnect | Silence
_WAITS: Final = (Await, Delay)
PASS: Final = Pass.PASS
RESPOND: Final = Respond.RESPOND


class Outcome(Enum):
    """How a request left a stage that it had entered."""

    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"
    """It never came to run."""


class Park(Exception):  # noqa: N818 - nothing is wrong: a handler asks to be called again
    """Raised by a command that must wait: for a ring of the bell, until an instant at the latest.

    The command is then called again, with the new time.
    """

    def __init__(self, bell: Bell | None, until: float) -> None:
        super().__init__(until)
        self.action = Await(bell, until)


class HangUp(Exception):  # noqa: N818 - it is not an error of ours
    """Raised by a command whose connection is to be closed without an answer."""


class Stage:
    """Something at one step. It overrides `enter`, `leave` or both."""

    step: Step

    def concerns(self, spec: CommandSpec) -> bool:  # noqa: ARG002 - for overriding
        """Say whether it can ever do anything to a command, so that others need not pass it.

        Asked once for each command, of stages behind `Step.LOOKUP`.
        """
        return True

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - for overriding
        """Say what happens to the request. Raises `CommandError` to have it answered with an error."""
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:
        """Undo or add to what was done; called for each stage entered, the innermost first."""


Enter: TypeAlias = "Callable[[RequestContext, float], Action]"
Leave: TypeAlias = "Callable[[RequestContext, Outcome, float], None]"


class _Leg(NamedTuple):
    """A part of the way, each stage with its number: those to enter, and those to leave from there."""

    entering: tuple[tuple[int, Enter], ...]
    leaving: tuple[tuple[int, Leave], ...]
    leads_on: bool = False
    """Behind it begins the leg of the command, which was not known before."""


class Paused(NamedTuple):
    """Where a request waits: how far it came, what is left of its leg, and since when."""

    ways: _Ways
    reached: int
    rest: _Leg
    since: float


class _Ways:
    """The ways through one arrangement of stages: overridden methods alone, so nothing else is paid for."""

    def __init__(self, stages: Sequence[Stage], order: Sequence[Step]) -> None:
        for stage in stages:
            if stage.step not in order:
                raise ValueError(f"{stage!r} stands at {stage.step}, which is not a step of this order")
        ordered = sorted(stages, key=lambda stage: order.index(stage.step))
        looked_up = order.index(Step.LOOKUP)
        execute = order.index(Step.EXECUTE)
        self.executed_at = sum(order.index(stage.step) < execute for stage in ordered)
        self._numbered = list(enumerate(ordered))
        self._first = sum(order.index(stage.step) <= looked_up for stage in ordered)
        self.start = _Leg(_entering(self._numbered[: self._first]), _leaving(self._numbered), leads_on=True)
        self._legs: dict[CommandSpec, _Leg] = {}

    def leg_of(self, spec: CommandSpec) -> _Leg:
        """Return the leg of a command: without the stages that have nothing to do with it."""
        leg = self._legs.get(spec)
        if leg is None:
            stages = [
                (number, stage)
                for number, stage in self._numbered
                if number < self._first or stage.concerns(spec)
            ]
            behind = [each for each in stages if each[0] >= self._first]
            leg = self._legs[spec] = _Leg(_entering(behind), _leaving(stages))
        return leg


def _entering(stages: Sequence[tuple[int, Stage]]) -> tuple[tuple[int, Enter], ...]:
    return tuple((number, stage.enter) for number, stage in stages if _overrides(stage, "enter"))


def _leaving(stages: Sequence[tuple[int, Stage]]) -> tuple[tuple[int, Leave], ...]:
    return tuple((number, stage.leave) for number, stage in reversed(stages) if _overrides(stage, "leave"))


def _overrides(stage: Stage, method: str) -> bool:
    return getattr(type(stage), method) is not getattr(Stage, method)


class Pipeline:
    """Stages along an order. `on_bug` hears of exceptions that no stage should have let out."""

    def __init__(
        self,
        stages: Sequence[Stage],
        order: Sequence[Place] = MONGOD,
        *,
        on_bug: Callable[[RequestContext, Exception], None],
    ) -> None:
        self._order = tuple(place.step for place in order)
        self._stages = list(stages)
        self._on_bug = on_bug
        self._ways = _Ways(self._stages, self._order)

    @contextmanager
    def installed(self, stage: Stage) -> Iterator[Stage]:
        """Have `stage` stand at its step, after those that are there, while the context lasts.

        Requests that wait meanwhile go on along the stages that there were. Raises `ValueError` for a stage
        whose step the order does not have.
        """
        self._ways = _Ways([*self._stages, stage], self._order)
        self._stages.append(stage)
        try:
            yield stage
        finally:
            self._stages.remove(stage)
            self._ways = _Ways(self._stages, self._order)

    def run(self, request: RequestContext, now: float) -> Action:
        """Walk a request along the stages, and return the first action that is not `PASS`.

        A `Delay` or an `Await` is to be followed by `resume` or `abandon`; every other action is the last.
        """
        ways = self._ways
        return self._walk(request, now, ways, ways.start, 0)

    def resume(self, request: RequestContext, now: float) -> Action:
        """Go on with a request that has waited, as `run` does."""
        paused, request.paused = request.paused, None
        assert paused is not None, "the request does not wait"
        return self._walk(request, now, paused.ways, paused.rest, paused.reached)

    def abandon(self, request: RequestContext) -> None:
        """Give up a request that waits."""
        paused, request.paused = request.paused, None
        assert paused is not None, "the request does not wait"
        abandoned = paused.reached <= paused.ways.executed_at
        _leave(request, paused.rest, paused.reached, paused.since, abandoned=abandoned)

    def interrupt(self, request: RequestContext, error: CommandError) -> Action:
        """End a request that waits with an error; one that has run tells of it in its write concern."""
        paused, request.paused = request.paused, None
        assert paused is not None, "the request does not wait"
        executed_at = paused.ways.executed_at
        if paused.reached > executed_at and request.failure is None:
            request.write_concern_error = {
                "code": int(error.code),
                "codeName": error.code_name,
                "errmsg": error.message,
            }
        else:
            request.failure = error
        _leave(request, paused.rest, paused.reached, paused.since, abandoned=paused.reached < executed_at)
        return RESPOND

    def _walk(self, request: RequestContext, now: float, ways: _Ways, leg: _Leg, reached: int) -> Action:
        final: Action = PASS
        try:
            while final is PASS:
                for reached, enter in leg.entering:  # noqa: B007, PLR1704 - it tells how far the walk came
                    final = enter(request, now)
                    if final is not PASS:
                        break
                else:
                    if leg.leads_on:
                        leg = ways.leg_of(request.spec)
                    else:
                        final = RESPOND
        except Exception as error:  # noqa: BLE001 - whatever a handler does, the server goes on
            final = self._answer_to(request, error)
        if isinstance(final, _WAITS):
            request.paused = Paused(ways, reached, _rest(leg, reached, again=isinstance(final, Await)), now)
        else:
            _leave(request, leg, reached, now, abandoned=reached < ways.executed_at)
        return final

    def _answer_to(self, request: RequestContext, error: Exception) -> Action:
        if isinstance(error, HangUp):
            return Disconnect(str(error))
        if isinstance(error, CommandError):
            request.failure = error.without_frames()
        elif isinstance(error, RecursionError):  # what is nested as deep as a message may be
            request.failure = CommandError(ErrorCode.OVERFLOW, "the command is nested too deeply")
        else:
            self._on_bug(request, error)
            request.failure = CommandError(ErrorCode.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        return RESPOND


def _rest(leg: _Leg, reached: int, *, again: bool) -> _Leg:
    """Return what is left of a leg behind a stage, or from it on."""
    entering = tuple(each for each in leg.entering if each[0] > reached or (again and each[0] == reached))
    return leg._replace(entering=entering)


def _leave(request: RequestContext, leg: _Leg, reached: int, now: float, *, abandoned: bool) -> None:
    ran = Outcome.DONE if request.failure is None else Outcome.FAILED
    outcome = Outcome.ABANDONED if abandoned else ran
    for number, leave in leg.leaving:
        if number <= reached:
            leave(request, outcome, now)
