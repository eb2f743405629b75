"""The steps of a request, in an order that is data, and the walk along them.

Nothing here waits: the walk yields what is to happen and is sent the time, so that a shell on sockets and a
simulator drive the same object.
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
    from collections.abc import Callable, Generator, Iterator, Sequence

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
    Place(Step.AUTHORIZATION, "the last check before the run", _MONGOS),
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

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - for overriding
        """Say what happens to the request. Raises `CommandError` to have it answered with an error."""
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:
        """Undo or add to what was done; called for each stage entered, the innermost first."""


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
        self._arrange()

    def _arrange(self) -> None:
        """Work out the walk: overridden methods alone, so that a request pays for nothing else."""
        for stage in self._stages:
            if stage.step not in self._order:
                raise ValueError(f"{stage!r} stands at {stage.step}, which is not a step of this order")
        ordered = sorted(self._stages, key=lambda stage: self._order.index(stage.step))
        execute = self._order.index(Step.EXECUTE)
        self._executed_at = sum(self._order.index(stage.step) < execute for stage in ordered)
        self._walk = tuple(
            (number, stage.enter) for number, stage in enumerate(ordered) if _overrides(stage, "enter")
        )
        leaving = [
            (number, stage.leave) for number, stage in enumerate(ordered) if _overrides(stage, "leave")
        ]
        self._leaving = tuple(reversed(leaving))

    @contextmanager
    def installed(self, stage: Stage) -> Iterator[Stage]:
        """Have `stage` stand at its step, after those that are there, while the context lasts."""
        self._stages.append(stage)
        try:
            self._arrange()
            yield stage
        finally:
            self._stages.remove(stage)
            self._arrange()

    def run(self, request: RequestContext, now: float) -> Generator[Action, float, None]:
        """Walk a request along the stages.

        Yields each `Delay` and `Await`, and is sent the time when it is over; the last action that it yields
        is `Respond`, `Disconnect` or `Silence`. Closing the generator abandons the request.
        """
        reached = 0
        final: Action = RESPOND
        try:
            for reached, enter in self._walk:  # noqa: B007 - it tells below how far the walk came
                action = enter(request, now)
                if action is PASS:
                    continue
                while isinstance(action, Await):
                    now = yield action
                    action = enter(request, now)
                if isinstance(action, Delay):
                    now = yield action
                elif action is not PASS:
                    final = action
                    break
        except GeneratorExit:
            self._leave(request, reached, now, abandoned=reached <= self._executed_at)
            raise
        except Exception as error:  # noqa: BLE001 - whatever a handler does, the server goes on
            final = self._answer_to(request, error)
        self._leave(request, reached, now, abandoned=reached < self._executed_at)
        yield final

    def _answer_to(self, request: RequestContext, error: Exception) -> Action:
        if isinstance(error, HangUp):
            return Disconnect(str(error))
        if isinstance(error, CommandError):
            request.failure = error
        else:
            self._on_bug(request, error)
            request.failure = CommandError(ErrorCode.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        return RESPOND

    def _leave(self, request: RequestContext, reached: int, now: float, *, abandoned: bool) -> None:
        if abandoned:
            outcome = Outcome.ABANDONED
        else:
            outcome = Outcome.DONE if request.failure is None else Outcome.FAILED
        for number, leave in self._leaving:
            if number <= reached:
                leave(request, outcome, now)


def _overrides(stage: Stage, method: str) -> bool:
    return getattr(type(stage), method) is not getattr(Stage, method)
