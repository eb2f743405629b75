"""The steps of a request, in an order that is data, and the walk along them.

What a real server answers often depends on the order of its checks and on nothing else. Is an unauthorized
command on a secondary 13 Unauthorized or 10107 NotWritablePrimary? Does an invalid command use up a fail
point's `times`? Does a rejection carry cluster time? So the order is the specification of this server:
`MONGOD` and `MONGOS` list it, each step with the reason for its position and the file of the server that
shows it.

    Step    a position in an order
    Stage   an object at a step: `enter` on the way in, `leave` on the way out; several may share a step
    Action  the answer of `enter`; the first that is not `PASS` ends the walk, or interrupts it

    enter: RATE_LIMIT > CLUSTER_TIME > ... > EXECUTE > WRITE_CONCERN
    leave: the stages that were entered, the innermost first

The stage that refuses a request has been entered, and is left too. A failure is thus seen by the stages
around the one that failed, and by no other: that is why a rejection by the rate limiter has no labels of
`Step.LABELS` (it brings its own) and no cluster time.

Nothing here waits. `Delay` and `Await` hand the request back to the caller together with its position
(`Paused`), and `resume` goes on from there: behind the stage after a `Delay`, at the same stage after an
`Await`, which asks again because what it waited for may be gone. A shell on sockets, a simulator and a test
drive the same object.

Stages of commands other than the one that was sent cost nothing: behind `Step.LOOKUP` the walk takes the leg
of that command, without the stages that say they have nothing to do with it (`Stage.concerns`), and without
the methods that a stage does not override.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.waiting.pause import Await, Delay
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fakeserver.idl.command_table import CommandSpec


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


class Placement(NamedTuple):
    """A step in an order, with the reason for its position and the file of the server that shows it."""

    step: Step
    reason: str
    source: str


_MONGOD = "db/service_entry_point_shard_role.cpp"
_MONGOS = "s/commands/strategy.cpp"
_SESSION = "transport/session_workflow.cpp"
_PARSING = "db/commands.cpp"
_LOCKS = "db/admission/README.md"

MONGOD: Final = (
    Placement(
        Step.RATE_LIMIT, "decides before anything is parsed, so a rejection costs next to nothing", _SESSION
    ),
    Placement(Step.CLUSTER_TIME, "surrounds all that follows: a rejection above carries no time", _MONGOD),
    Placement(Step.PARSE, "a message that cannot be read names no command", _SESSION),
    Placement(Step.LOOKUP, "an unknown name is answered before its body is looked at", _MONGOD),
    Placement(Step.AUTHENTICATION, "strangers learn nothing about the validity of a body", _MONGOD),
    Placement(Step.BODY, "an invalid command consumes no fail point", _PARSING),
    Placement(Step.LABELS, "surrounds all that follows: failures above carry no labels", _MONGOD),
    Placement(Step.CLIENT_METADATA, "a fail point's appName holds for the first hello", _MONGOD),
    Placement(Step.SESSION, "structure of lsid and txnNumber is checked before fail points", _MONGOD),
    Placement(Step.FAIL_POINTS, "ahead of authorization and of the replica state", _MONGOD),
    Placement(Step.RULES, "scripted behaviour sees what fail points let pass", "(ours)"),
    Placement(Step.ELIGIBILITY, "retryable and transactional eligibility come after fail points", _MONGOD),
    Placement(Step.AUTHORIZATION, "the database's validity is known", _MONGOD),
    Placement(Step.REPLICA_STATE, "a client without privileges does not learn where to run it", _MONGOD),
    Placement(Step.DEADLINE, "armed late, counted from the arrival", _MONGOD),
    Placement(Step.RATE_LIMIT_QUEUE, "a request admitted on credit waits here for its token", _MONGOD),
    Placement(Step.TICKETS, "held for the run, not for the wait above", _MONGOD),
    Placement(Step.READ_CONCERN, "the last check before the run", _MONGOD),
    Placement(Step.FLOW_CONTROL, "writers ask it first, before the lock that needs a ticket", _LOCKS),
    Placement(Step.EXECUTION_CONTROL, "the ticket of the lock; a run is where locks are taken", _LOCKS),
    Placement(Step.EXECUTE, "the command runs", _MONGOD),
    Placement(Step.WRITE_CONCERN, "waits also for a command that failed", _MONGOD),
)
"""The order of a mongod."""

MONGOS: Final = (
    Placement(Step.RATE_LIMIT, "as on mongod", _SESSION),
    Placement(Step.CLUSTER_TIME, "as on mongod", _MONGOS),
    Placement(Step.PARSE, "as on mongod", _SESSION),
    Placement(Step.LOOKUP, "as on mongod", _MONGOS),
    Placement(Step.AUTHENTICATION, "as on mongod", _MONGOS),
    Placement(Step.BODY, "as on mongod", _MONGOS),
    Placement(Step.LABELS, "as on mongod", _MONGOS),
    Placement(Step.SESSION, "structure of lsid and txnNumber", _MONGOS),
    Placement(Step.ELIGIBILITY, "eligibility belongs to the structural checks here", _MONGOS),
    Placement(Step.DEADLINE, "armed before fail points: a block beyond it is cut short", _MONGOS),
    Placement(Step.RATE_LIMIT_QUEUE, "the wait is part of the deadline", _MONGOS),
    Placement(Step.CLIENT_METADATA, "ahead of fail points, as on mongod", _MONGOS),
    Placement(Step.FAIL_POINTS, "after the deadline, unlike mongod", _MONGOS),
    Placement(Step.RULES, "as on mongod", "(ours)"),
    Placement(Step.READ_CONCERN, "defaults are applied before authorization", _MONGOS),
    Placement(Step.AUTHORIZATION, "the last check before the command goes to a shard", _MONGOS),
    Placement(Step.TICKETS, "the shard's, like those of the two steps that follow", _MONGOD),
    Placement(Step.FLOW_CONTROL, "as on mongod", _LOCKS),
    Placement(Step.EXECUTION_CONTROL, "as on mongod", _LOCKS),
    Placement(Step.EXECUTE, "the command runs", _MONGOS),
    Placement(Step.WRITE_CONCERN, "the shards waited; fail points still add their error", _MONGOS),
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

    def concerns(self, spec: CommandSpec) -> bool:  # noqa: ARG002 - for overriding
        """Say whether it can ever do anything to a command, so that others need not pass it.

        Asked once for each command, of stages behind `Step.LOOKUP`.
        """
        return True

    def enter(self, request: Any, now: float) -> Action:  # noqa: ARG002 - for overriding
        """Return the next action. Raises `CommandError` to answer the request with an error."""
        return PASS

    def leave(self, request: Any, outcome: Outcome, now: float) -> None:
        """Undo or add to what was done; called for each stage entered, the innermost first."""


Enter: TypeAlias = "Callable[[Any, float], Action]"
Leave: TypeAlias = "Callable[[Any, Outcome, float], None]"


class _Leg(NamedTuple):
    """A part of the way, each stage with its number: those to enter, and those to leave from there."""

    entering: tuple[tuple[int, Enter], ...]
    leaving: tuple[tuple[int, Leave], ...]
    leads_on: bool = False
    """Behind it begins the leg of the command, which was not known before."""


class Paused(NamedTuple):
    """The position of a request that waits."""

    ways: _Ways
    """The arrangement of stages along which it came, whatever is installed meanwhile."""
    reached: int
    """The number of the stage that has it wait."""
    rest: _Leg
    """The rest of its leg."""
    since: float
    """The instant at which it reached that stage."""

    @property
    def step(self) -> Step:
        """The step of the stage that has it wait."""
        return self.ways.step_of(self.reached)


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

    def step_of(self, number: int) -> Step:
        """Return the step of a stage, by its number."""
        return self._numbered[number][1].step

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
        order: Sequence[Placement] = MONGOD,
        *,
        on_bug: Callable[[Any, Exception], None],
    ) -> None:
        self._order = tuple(placement.step for placement in order)
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

    def run(self, request: Request, now: float) -> Action:
        """Walk a request along the stages, and return the first action that is not `PASS`.

        A `Delay` or an `Await` is to be followed by `resume` or `abandon`; every other action is the last.
        """
        ways = self._ways
        return self._walk(request, now, ways, ways.start, 0)

    def resume(self, request: Request, now: float) -> Action:
        """Go on with a request that has waited, as `run` does."""
        paused, request.paused = request.paused, None
        assert paused is not None, "the request does not wait"
        return self._walk(request, now, paused.ways, paused.rest, paused.reached)

    def abandon(self, request: Request) -> None:
        """Give up a request that waits."""
        paused, request.paused = request.paused, None
        assert paused is not None, "the request does not wait"
        abandoned = paused.reached <= paused.ways.executed_at
        _leave(request, paused.rest, paused.reached, paused.since, abandoned=abandoned)

    def interrupt(self, request: Request, error: CommandError) -> Action:
        """End a request that waits with an error; one that has run tells of it in its write concern."""
        paused, request.paused = request.paused, None
        assert paused is not None, "the request does not wait"
        executed_at = paused.ways.executed_at
        if paused.reached > executed_at and request.response.failure is None:
            request.response.write_concern_error = {
                "code": int(error.code),
                "codeName": error.code_name,
                "errmsg": error.message,
            }
        else:
            request.response.failure = error
        _leave(request, paused.rest, paused.reached, paused.since, abandoned=paused.reached < executed_at)
        return RESPOND

    def _walk(self, request: Request, now: float, ways: _Ways, leg: _Leg, reached: int) -> Action:
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
        if isinstance(final, Await | Delay):
            request.paused = Paused(ways, reached, _rest(leg, reached, again=isinstance(final, Await)), now)
        else:
            _leave(request, leg, reached, now, abandoned=reached < ways.executed_at)
        return final

    def _answer_to(self, request: Request, error: Exception) -> Action:
        if isinstance(error, HangUp):
            return Disconnect(str(error))
        if isinstance(error, CommandError):
            request.response.failure = error.without_frames()
        elif isinstance(error, RecursionError):  # what is nested as deep as a message may be
            request.response.failure = CommandError(ErrorCode.OVERFLOW, "the command is nested too deeply")
        else:
            self._on_bug(request, error)
            request.response.failure = CommandError(
                ErrorCode.INTERNAL_ERROR, f"{type(error).__name__}: {error}"
            )
        return RESPOND


def _rest(leg: _Leg, reached: int, *, again: bool) -> _Leg:
    """Return the rest of a leg behind a stage, or from it on."""
    entering = tuple(each for each in leg.entering if each[0] > reached or (again and each[0] == reached))
    return leg._replace(entering=entering)


def _leave(request: Request, leg: _Leg, reached: int, now: float, *, abandoned: bool) -> None:
    ran = Outcome.DONE if request.response.failure is None else Outcome.FAILED
    outcome = Outcome.ABANDONED if abandoned else ran
    for number, leave in leg.leaving:
        if number <= reached:
            leave(request, outcome, now)
