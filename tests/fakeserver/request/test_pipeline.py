"""The walk of a request: no server, no loop, stages that a test makes up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from fakeserver.errors import CommandError
from fakeserver.request.pipeline import (
    MONGOD,
    MONGOS,
    PASS,
    RESPOND,
    Action,
    Disconnect,
    HangUp,
    Outcome,
    Pipeline,
    Silence,
    Stage,
    Step,
)
from fakeserver.waiting.bell import Bell
from fakeserver.waiting.pause import Await, Delay, Park

if TYPE_CHECKING:
    from collections.abc import Callable


class _Response:
    failure: CommandError | None = None
    write_concern_error: Any = None


class _Request:
    """What the walk itself touches of a request."""

    spec: Any = None
    command: Any = None
    node: Any = None
    paused: Any = None
    brief = False

    def __init__(self) -> None:
        self.response = _Response()


class _Spy(Stage):
    """A stage that answers from a script, then passes, and notes what happens to it."""

    def __init__(self, log: list[str], step: Step, *actions: Action | Exception) -> None:
        self.step = step
        self._log = log
        self._actions = list(actions)

    def enter(self, request: _Request, now: float) -> Action:
        self._log.append(f"{self.step.name} at {now}")
        action = self._actions.pop(0) if self._actions else PASS
        if isinstance(action, Exception):
            raise action
        return action

    def leave(self, request: _Request, outcome: Outcome, now: float) -> None:
        self._log.append(f"{self.step.name} {outcome.name} at {now}")


def _pipeline(*stages: Stage, bugs: list[Exception] | None = None) -> Pipeline:
    def on_bug(request: _Request, bug: Exception) -> None:
        assert bugs is not None
        bugs.append(bug)

    return Pipeline(stages, on_bug=on_bug)


def _run(pipeline: Pipeline, *times: float) -> tuple[list[Action], _Request]:
    """Walk from instant 0 on, sending `times` at each pause; return the actions."""
    request = _Request()
    actions = [pipeline.run(request, 0.0)]
    actions += [pipeline.resume(request, now) for now in times]
    return actions, request


def test_stages_are_entered_in_the_order_of_the_steps_and_left_innermost_first() -> None:
    log: list[str] = []
    pipeline = _pipeline(_Spy(log, Step.EXECUTE), _Spy(log, Step.PARSE), _Spy(log, Step.LABELS))
    actions, _ = _run(pipeline)
    assert actions == [RESPOND]
    assert log == [
        *("PARSE at 0.0", "LABELS at 0.0", "EXECUTE at 0.0"),
        *("EXECUTE DONE at 0.0", "LABELS DONE at 0.0", "PARSE DONE at 0.0"),
    ]


@pytest.mark.parametrize("final", [RESPOND, Disconnect("x"), Silence("x")])
def test_the_first_stage_that_does_not_pass_ends_the_walk(final: Action) -> None:
    log: list[str] = []
    pipeline = _pipeline(_Spy(log, Step.PARSE), _Spy(log, Step.BODY, final), _Spy(log, Step.EXECUTE))
    actions, _ = _run(pipeline)
    assert actions == [final]
    assert log[1:] == ["BODY at 0.0", "BODY ABANDONED at 0.0", "PARSE ABANDONED at 0.0"]


def test_a_command_error_is_the_requests_failure() -> None:
    log: list[str] = []
    failure = CommandError(59, "no such command")
    actions, request = _run(_pipeline(_Spy(log, Step.LOOKUP, failure), _Spy(log, Step.EXECUTE)))
    assert actions == [RESPOND]
    assert request.response.failure is failure
    assert log[-1] == "LOOKUP ABANDONED at 0.0"


def test_a_failure_of_the_run_itself_is_no_abandonment() -> None:
    log: list[str] = []
    _run(_pipeline(_Spy(log, Step.EXECUTE, CommandError(1, "x"))))
    assert log[-1] == "EXECUTE FAILED at 0.0"


def test_whoever_delays_is_not_asked_again() -> None:
    log: list[str] = []
    pipeline = _pipeline(_Spy(log, Step.FAIL_POINTS, Delay(3.0)), _Spy(log, Step.EXECUTE))
    actions, _ = _run(pipeline, 3.5)
    assert actions == [Delay(3.0), RESPOND]
    assert log[:2] == ["FAIL_POINTS at 0.0", "EXECUTE at 3.5"]


def test_whoever_awaits_is_asked_again_until_it_passes() -> None:
    log: list[str] = []
    bell = Bell()
    pipeline = _pipeline(_Spy(log, Step.EXECUTE, Await(bell, 9.0), Await(None, 9.0)))
    actions, _ = _run(pipeline, 1.0, 9.0)
    assert actions == [Await(bell, 9.0), Await(None, 9.0), RESPOND]
    assert log == ["EXECUTE at 0.0", "EXECUTE at 1.0", "EXECUTE at 9.0", "EXECUTE DONE at 9.0"]


def test_awaiting_may_end_in_a_delay_or_a_refusal() -> None:
    log: list[str] = []
    pipeline = _pipeline(_Spy(log, Step.FAIL_POINTS, Await(None, 1.0), Delay(2.0)))
    assert _run(pipeline, 1.0, 2.0)[0] == [Await(None, 1.0), Delay(2.0), RESPOND]
    pipeline = _pipeline(_Spy(log, Step.FAIL_POINTS, Await(None, 1.0), Disconnect("x")))
    assert _run(pipeline, 1.0)[0] == [Await(None, 1.0), Disconnect("x")]


@pytest.mark.parametrize(
    ("waiting", "outcome"),
    [(Step.FAIL_POINTS, "ABANDONED"), (Step.EXECUTE, "ABANDONED"), (Step.WRITE_CONCERN, "DONE")],
)
def test_a_request_whose_client_leaves_was_abandoned_unless_it_ran(waiting: Step, outcome: str) -> None:
    log: list[str] = []
    stages = [_Spy(log, step) for step in (Step.PARSE, Step.EXECUTE) if step is not waiting]
    pipeline = _pipeline(*stages, _Spy(log, waiting, Await(None, 5.0)))
    request = _Request()
    pipeline.run(request, 0.0)
    pipeline.abandon(request)
    assert log[-1] == f"PARSE {outcome} at 0.0"


def test_a_handler_may_hang_up() -> None:
    actions, _ = _run(_pipeline(_Spy([], Step.EXECUTE, HangUp("enough"))))
    assert actions == [Disconnect("enough")]


class _Stumbling(_Spy):
    """A stage that fails when it is left."""

    def leave(self, request: _Request, outcome: Outcome, now: float) -> None:
        super().leave(request, outcome, now)
        raise ZeroDivisionError("oops")


@pytest.mark.parametrize(
    "action", [PASS, Await(None, 1.0), CommandError(1, "x")], ids=lambda each: type(each).__name__
)
def test_a_stage_that_fails_when_it_is_left_keeps_no_other_from_being_left(action: Any) -> None:
    log: list[str] = []
    bugs: list[Exception] = []
    stages = _Spy(log, Step.TICKETS), _Stumbling(log, Step.READ_CONCERN), _Spy(log, Step.EXECUTE, action)
    actions, request = _run(_pipeline(*stages, bugs=bugs), *([1.0] if isinstance(action, Await) else []))
    assert actions[-1] is RESPOND
    assert [line.split()[0] for line in log[-3:]] == ["EXECUTE", "READ_CONCERN", "TICKETS"]
    assert request.response.failure is not None
    assert (request.response.failure.code, len(bugs)) == (1, 1)


def test_a_bug_is_an_internal_error_and_is_reported() -> None:
    bugs: list[Exception] = []
    actions, request = _run(_pipeline(_Spy([], Step.EXECUTE, ZeroDivisionError("oops")), bugs=bugs))
    assert actions == [RESPOND]
    assert request.response.failure is not None
    assert (request.response.failure.code, request.response.failure.message) == (1, "ZeroDivisionError: oops")
    assert [type(bug) for bug in bugs] == [ZeroDivisionError]


def test_a_park_names_what_it_waits_for() -> None:
    bell = Bell()
    assert Park(bell, 7.0).action == Await(bell, 7.0)
    assert Await().until == math.inf


def test_an_installed_stage_stands_behind_those_of_its_step_and_only_for_a_while() -> None:
    log: list[str] = []
    pipeline = _pipeline(_Spy(log, Step.RULES), _Spy(log, Step.EXECUTE))
    guest = _Spy(log, Step.RULES, Disconnect("guest"))
    with pipeline.installed(guest) as stage:
        assert stage is guest
        assert _run(pipeline)[0] == [Disconnect("guest")]
        assert log[:2] == ["RULES at 0.0", "RULES at 0.0"]
    assert _run(pipeline)[0] == [RESPOND]


def test_a_stage_of_an_unknown_step_is_refused_and_leaves_nothing() -> None:
    pipeline = Pipeline([], MONGOS, on_bug=lambda *_: None)
    with pytest.raises(ValueError, match="not a step"), pipeline.installed(_Spy([], Step.REPLICA_STATE)):
        pass
    assert _run(pipeline)[0] == [RESPOND]


class _Choosy(_Spy):
    """Has to do with one command alone."""

    @classmethod
    def concerns(cls, spec: Any) -> bool:
        return bool(spec == "chosen")


@pytest.mark.parametrize(
    ("command", "log"),
    [
        ("chosen", ["LOOKUP", "BODY", "EXECUTE", "EXECUTE DONE", "BODY DONE", "LOOKUP DONE"]),
        ("other", ["LOOKUP", "EXECUTE", "EXECUTE DONE", "LOOKUP DONE"]),
    ],
)
def test_a_command_passes_the_stages_that_concern_it(command: str, log: list[str]) -> None:
    found: list[str] = []
    stages = (_Choosy(found, Step.LOOKUP), _Choosy(found, Step.BODY), _Spy(found, Step.EXECUTE))
    request = _Request()
    request.spec = command
    assert _pipeline(*stages).run(request, 0.0) is RESPOND
    assert [line.removesuffix(" at 0.0") for line in found] == log


def test_servers_with_the_same_stages_ask_once_whom_a_command_concerns() -> None:
    asked: list[str] = []

    class Asked(_Spy):
        @classmethod
        def concerns(cls, spec: Any) -> bool:
            asked.append(spec)
            return True

    for _ in range(2):
        pipeline = _pipeline(_Spy([], Step.LOOKUP), Asked([], Step.BODY), _Spy([], Step.EXECUTE))
        for command in ("find", "insert"):
            request = _Request()
            request.spec = command
            assert pipeline.run(request, 0.0) is RESPOND
    assert asked == ["find", "insert"]


def test_a_request_that_waits_goes_on_along_the_stages_it_began_with() -> None:
    log: list[str] = []
    pipeline = _pipeline(_Spy(log, Step.PARSE, Delay(1.0)), _Spy(log, Step.EXECUTE))
    request = _Request()
    with pipeline.installed(_Spy(log, Step.RULES)):
        assert pipeline.run(request, 0.0) == Delay(1.0)
    assert pipeline.resume(request, 1.0) is RESPOND
    assert "RULES at 1.0" in log
    log.clear()
    _run(pipeline)
    assert "RULES at 0.0" not in log


def test_a_delay_at_the_last_stage_is_followed_by_leaving_them_all() -> None:
    log: list[str] = []
    actions, _ = _run(_pipeline(_Spy(log, Step.PARSE), _Spy(log, Step.WRITE_CONCERN, Delay(1.0))), 1.0)
    assert actions == [Delay(1.0), RESPOND]
    assert log[2:] == ["WRITE_CONCERN DONE at 1.0", "PARSE DONE at 1.0"]


def test_a_failure_that_is_kept_keeps_nothing_of_the_calls_it_came_through() -> None:
    failure = CommandError(1, "x")
    failure.__cause__ = ZeroDivisionError("why")
    _, request = _run(_pipeline(_Spy([], Step.EXECUTE, failure)))
    assert request.response.failure is failure
    assert not any((failure.__traceback__, failure.__cause__, failure.__context__))


class _Half(Stage):
    """Overrides one of the two methods."""

    step = Step.LABELS


def test_a_stage_that_overrides_nothing_costs_nothing() -> None:
    pipeline = _pipeline(_Half())
    assert _run(pipeline)[0] == [RESPOND]
    assert Stage.enter(_Half(), None, 0.0) is PASS


def _before(order: Any, first: Step, second: Step) -> bool:
    steps = [placement.step for placement in order]
    return steps.index(first) < steps.index(second)


@pytest.mark.parametrize("order", [MONGOD, MONGOS], ids=["mongod", "mongos"])
def test_an_order_names_each_step_once_with_a_reason_and_a_source(order: Any) -> None:
    steps = [placement.step for placement in order]
    assert len(steps) == len(set(steps))
    assert all(placement.reason and placement.source for placement in order)


def test_the_two_orders_differ_where_the_two_servers_do() -> None:
    comparisons: list[tuple[Callable[[Any], bool], bool, bool]] = [
        (lambda order: _before(order, Step.FAIL_POINTS, Step.DEADLINE), True, False),
        (lambda order: _before(order, Step.FAIL_POINTS, Step.ELIGIBILITY), True, False),
        (lambda order: _before(order, Step.FAIL_POINTS, Step.AUTHORIZATION), True, True),
        (lambda order: _before(order, Step.RATE_LIMIT, Step.PARSE), True, True),
        (lambda order: _before(order, Step.FAIL_POINTS, Step.RATE_LIMIT_QUEUE), True, False),
    ]
    for compare, mongod, mongos in comparisons:
        assert (compare(MONGOD), compare(MONGOS)) == (mongod, mongos)


def test_a_bell_rings_once_for_those_who_listen_in_their_order() -> None:
    bell, heard = Bell(), []
    bell.listen(lambda: heard.append("first"))
    ignored = bell.listen(lambda: heard.append("ignored"))
    bell.listen(lambda: heard.append("last"))
    bell.ignore(ignored)
    bell.ignore(ignored)
    assert len(bell.listeners) == 2
    bell.ring()
    bell.ring()
    assert heard == ["first", "last"]
