"""The steps of a request, in an order that is data, and the walk along them.

What a real server answers often depends on the order of its checks and on nothing else. Is an unauthorized
command on a secondary 13 Unauthorized or 10107 NotWritablePrimary? Does an invalid command use up a fail
point's `times`? Does a rejection carry cluster time? So the order is the specification of this server:
`MONGOD` and `MONGOS` list it, each step with the reason for its position and the file of the server that
shows it.

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
of that command, and where a path has been worked out for its shape, that path (`request.path`).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.errors import CommandError
from fakeserver.request.path import Leg, Paused, Ways
from fakeserver.request.stage import (
    PASS,
    RESPOND,
    Action,
    Disconnect,
    HangUp,
    Outcome,
    Request,
    Silence,
    Stage,
    Step,
)
from fakeserver.waiting.pause import Await, Delay
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fakeserver.request.stage import Enter, Screen

__all__ = [
    "MONGOD",
    "MONGOS",
    "PASS",
    "RESPOND",
    "Action",
    "Disconnect",
    "HangUp",
    "Outcome",
    "Paused",
    "Pipeline",
    "Placement",
    "Request",
    "Silence",
    "Stage",
    "Step",
]


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


class Pipeline:
    """Stages along an order. `on_bug` hears of exceptions that no stage should have let out."""

    def __init__(
        self,
        stages: Sequence[Stage],
        order: Sequence[Placement] = MONGOD,
        *,
        on_bug: Callable[[Any, Exception], None],
        compiled: bool = True,
    ) -> None:
        """Arrange `stages`; without `compiled` each request walks all that concern its command."""
        self._order = tuple(placement.step for placement in order)
        self._stages = list(stages)
        self._on_bug = on_bug
        self._compiled = compiled
        self.ways = self._arrange(self._stages)
        """The ways through the stages, as they are arranged now."""

    def _arrange(self, stages: Sequence[Stage]) -> Ways:
        return Ways(stages, self._order, compiled=self._compiled)

    @contextmanager
    def installed(self, stage: Stage) -> Iterator[Stage]:
        """Have `stage` stand at its step, after those that are there, while the context lasts.

        Requests that wait meanwhile go on along the stages that there were. Raises `ValueError` for a stage
        whose step the order does not have.
        """
        self.ways = self._arrange([*self._stages, stage])
        self._stages.append(stage)
        try:
            yield stage
        finally:
            self._stages.remove(stage)
            self.ways = self._arrange(self._stages)

    def recompile(self, *, compiled: bool | None = None) -> None:
        """Forget all paths: how the server stands has changed, as far as a stage's `entry` asks."""
        if compiled is not None and compiled is not self._compiled:
            self._compiled = compiled
            self.ways = self._arrange(self._stages)
        elif self.ways.opening is not None:
            self.ways = self.ways.anew()

    def door(self, node: Any) -> Screen | None:
        """Return the decision of the first stage, where it needs no request for that (`run_screened`)."""
        ways = self.ways
        if ways.opening is None:
            ways.open(node)
        return ways.door

    def run(self, request: Request, now: float) -> Action:
        """Walk a request along the stages, and return the first action that is not `PASS`.

        A `Delay` or an `Await` is to be followed by `resume` or `abandon`; every other action is the last.
        """
        ways = self.ways
        return self._run(request, now, ways, ways.opening or ways.open(request.node))

    def run_screened(self, request: Request, now: float) -> Action:
        """Walk as `run` does, behind the stage that has decided by `Ways.door`."""
        ways = self.ways
        return self._run(request, now, ways, ways.screened)

    def _run(
        self, request: Request, now: float, ways: Ways, opening: tuple[tuple[int, Enter], ...]
    ) -> Action:
        leg, path, reached, leaving = ways.start, None, 0, None
        final: Action = PASS
        try:
            for reached, enter in opening:  # noqa: B007 - it tells how far the walk came
                final = enter(request, now)
                if final is not PASS:
                    break
            else:
                if request.brief:
                    command: Any = request.command
                    key = (request.spec, *command, *map(type, command.values()))
                    path = ways.paths.get(key) or ways.path_of(key, request.node)
                leg = ways.leg_of(request.spec) if path is None else path.leg
                for reached, enter in (path or leg).entering:  # noqa: B007 - likewise
                    final = enter(request, now)
                    if final is not PASS:
                        break
                else:
                    final = RESPOND
                    leaving = None if path is None else path.leaving
        except Exception as error:  # noqa: BLE001 - whatever a handler does, the server goes on
            final = self._answer_to(request, error)
        if leaving is not None and ways is not self.ways:
            # In its own run, or while that gave way, something has changed how the server stands.
            return self._walk(request, now, ways, _rest(leg, reached, again=False), reached)
        response = request.response
        if leaving is None or response.failure is not None or response.write_concern_error is not None:
            return self._end(request, now, ways, leg, reached, final)
        for leave in leaving:
            try:
                leave(request, Outcome.DONE, now)
            except Exception as error:  # noqa: BLE001 - likewise; and the other stages are left all the same
                self._answer_to(request, error)
        return final

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
        self._leave(request, paused.rest, paused.reached, paused.since, abandoned=abandoned)

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
        self._leave(
            request, paused.rest, paused.reached, paused.since, abandoned=paused.reached < executed_at
        )
        return RESPOND

    def _walk(self, request: Request, now: float, ways: Ways, leg: Leg, reached: int) -> Action:
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
        return self._end(request, now, ways, leg, reached, final)

    def _end(self, request: Request, now: float, ways: Ways, leg: Leg, reached: int, final: Action) -> Action:
        if isinstance(final, Await | Delay):
            request.paused = Paused(ways, reached, _rest(leg, reached, again=isinstance(final, Await)), now)
        else:
            self._leave(request, leg, reached, now, abandoned=reached < ways.executed_at)
        return final

    def _leave(self, request: Request, leg: Leg, reached: int, now: float, *, abandoned: bool) -> None:
        ran = Outcome.DONE if request.response.failure is None else Outcome.FAILED
        outcome = Outcome.ABANDONED if abandoned else ran
        for number, leave in leg.leaving:
            if number <= reached:
                try:
                    leave(request, outcome, now)
                except Exception as error:  # noqa: BLE001 - what a stage holds, its ticket, is returned anyhow
                    self._answer_to(request, error)

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


def _rest(leg: Leg, reached: int, *, again: bool) -> Leg:
    """Return the rest of a leg behind a stage, or from it on."""
    entering = tuple(each for each in leg.entering if each[0] > reached or (again and each[0] == reached))
    return leg._replace(entering=entering)
