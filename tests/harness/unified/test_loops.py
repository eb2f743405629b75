"""Unified Test Format: loop."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from scenario_world import World
from scripted import ScriptedAdapter

from harness.adapters.base import ErrorReport, Feature
from harness.unified.errors import ScenarioError
from harness.unified.loader import load
from harness.unified.loops import Loops
from harness.unified.outcome import Status
from harness.world import interruption
from harness.world.interruption import Interrupted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FIND = "{name: find, object: collection0, arguments: {filter: {}}}"
COUNT = "{name: countDocuments, object: collection0, arguments: {filter: {}}, expectResult: 1}"
INSERT = "- {name: insertOne, object: collection0, arguments: {document: {}}}"
BROKEN = ErrorReport("the pipe broke")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def loop(*operations: str, **stores: str) -> str:
    """Return a loop of operations; `errors="e"` stores errors as entity `e`."""
    named = "".join(f", store{name.capitalize()}AsEntity: {entity}" for name, entity in stores.items())
    inside = ", ".join(operations)
    return f"- {{name: loop, object: testRunner, arguments: {{operations: [{inside}]{named}}}}}"


def entities(world: World, operations: str) -> Mapping[str, Any]:
    """Run a case that passes, and return the entities that it leaves behind."""
    outcome = world.run(operations)
    assert outcome.status is Status.PASSED, outcome.reason
    assert outcome.entities is not None
    return outcome.entities


def texts(stored: list[dict[str, Any]]) -> list[str]:
    return [document["error"] for document in stored]


class TestBounds:
    def test_a_loop_ends_after_as_many_iterations_as_it_may_make(self, world: World) -> None:
        world.loops = Loops(iterations=3)
        world.adapter.answers["countDocuments"] = 1
        left = entities(world, loop(FIND, COUNT, iterations="rounds", successes="good"))
        assert left == {"rounds": 3, "good": 6}
        calls = [name for name, _ in world.adapter.calls if name != "endSession"]
        assert calls == ["find", "countDocuments"] * 3

    def test_or_when_its_time_is_over_on_the_clock_of_the_case(self, world: World) -> None:
        world.loops = Loops(iterations=1000, seconds=10)

        async def second() -> None:
            clock = world.deployment.clock
            await clock.sleep_until(clock.now() + 1)

        world.adapter.answers["find"] = lambda _: second()
        outcome, seconds = world.run_virtual(loop(FIND, iterations="rounds"))
        assert outcome.entities == {"rounds": 10}
        assert seconds == pytest.approx(10)

    def test_an_iteration_is_not_cut_short_when_the_end_is_asked_for(self, world: World) -> None:
        def end(_: Mapping[str, Any]) -> None:
            if len(world.adapter.calls) == 5:
                world.loops.end()

        world.adapter.answers.update(find=end, countDocuments=1)
        left = entities(world, loop(FIND, COUNT, iterations="rounds", successes="good") + "\n" + INSERT)
        assert left == {"rounds": 3, "good": 6}
        assert "insertOne" in [name for name, _ in world.adapter.calls], "what follows is done all the same"

    def test_nor_does_any_iteration_begin_in_later_cases(self, world: World) -> None:
        world.loops.end()
        left = entities(world, loop(FIND, iterations="rounds", errors="e") + "\n" + INSERT)
        assert left == {"rounds": 0, "e": []}


class TestWhatGoesWrong:
    @pytest.mark.parametrize(
        ("operation", "answers", "said"),
        [
            (FIND, {"find": BROKEN}, "find failed: the pipe broke"),
            (COUNT, {"countDocuments": 2}, "countDocuments returned another result: expected 1, got 2"),
        ],
        ids=["error", "failure"],
    )
    def test_without_a_store_it_ends_the_loop_and_the_case(
        self, operation: str, answers: dict[str, Any], said: str, world: World
    ) -> None:
        world.adapter.answers.update(answers)
        outcome = world.run(loop(operation, iterations="rounds", successes="good") + "\n" + INSERT)
        assert (outcome.status, outcome.reason) == (Status.FAILED, said)
        assert outcome.entities == {"rounds": 1, "good": 0}
        assert "insertOne" not in [name for name, _ in world.adapter.calls]

    def test_errors_and_failures_have_stores_of_their_own(self, world: World) -> None:
        world.loops = Loops(iterations=4)
        world.adapter.answers["countDocuments"] = 2
        world.adapter.answers["find"] = lambda _: (
            world.adapter.fail(BROKEN) if len(world.adapter.calls) == 3 else None
        )
        left = entities(world, loop(FIND, COUNT, errors="e", failures="f", successes="good"))
        assert texts(left["e"]) == ["find failed: the pipe broke"]
        assert texts(left["f"]) == ["countDocuments returned another result: expected 1, got 2"] * 3
        assert left["good"] == 3, "an iteration ends with what goes wrong in it"
        utc = world.deployment.clock.utc()
        assert all(0 <= utc - document["time"] < 60 for document in (*left["e"], *left["f"]))

    @pytest.mark.parametrize("store", ["errors", "failures"])
    def test_where_there_is_one_store_it_takes_both(self, store: str, world: World) -> None:
        world.loops = Loops(iterations=2)
        world.adapter.answers.update(
            find=lambda _: world.adapter.fail(BROKEN) if len(world.adapter.calls) == 1 else None,
            countDocuments=2,
        )
        left = entities(world, loop(FIND, COUNT, **{store: "wrong"}))
        assert texts(left["wrong"]) == [
            "find failed: the pipe broke",
            "countDocuments returned another result: expected 1, got 2",
        ]

    def test_an_error_with_other_assertions_than_it_meets_is_a_failure(self, world: World) -> None:
        world.loops = Loops(iterations=1)
        world.adapter.answers["find"] = BROKEN
        expecting = FIND[:-1] + ", expectError: {errorCode: 1}}"
        left = entities(world, loop(expecting, errors="e", failures="f"))
        assert (left["e"], len(left["f"])) == ([], 1)

    def test_a_name_that_leads_nowhere_is_an_error(self, world: World) -> None:
        world.loops = Loops(iterations=1)
        left = entities(world, loop(FIND.replace("collection0", "nobody"), errors="e", failures="f"))
        assert len(left["e"]) == 1
        assert "there is no entity 'nobody'" in left["e"][0]["error"]

    def test_what_the_driver_cannot_do_is_no_error_but_skips_the_case(self, world: World) -> None:
        world.adapter = ScriptedAdapter(lacks=[Feature.FIND_CURSORS])
        cursor = FIND.replace("name: find", "name: createFindCursor")
        outcome = world.run(loop(cursor, errors="e"))
        assert outcome.status is Status.SKIPPED
        assert "FIND_CURSORS" in outcome.reason


class TestStores:
    def test_a_second_loop_appends_to_the_errors_of_the_first(self, world: World) -> None:
        world.loops = Loops(iterations=1)
        world.adapter.answers["find"] = BROKEN
        left = entities(world, "\n".join([loop(FIND, errors="e", failures="e")] * 2))
        assert len(left["e"]) == 2

    @pytest.mark.parametrize(
        ("store", "entity", "said"),
        [
            ("errors", "client0", "entity 'client0' is a client, not a document"),
            ("failures", "counted", "entity 'counted' is not an array"),
            ("successes", "counted", "entity 'counted' already exists (document)"),
            ("iterations", "client0", "entity 'client0' already exists (client)"),
            ("errors", "7", "7 is not the name of an entity"),
        ],
    )
    def test_before_the_first_iteration_names_are_checked(
        self, store: str, entity: str, said: str, world: World
    ) -> None:
        world.adapter.answers["countDocuments"] = 1
        saved = f"- {COUNT[:-1]}, saveResultAsEntity: counted}}\n"
        outcome = world.run(saved + loop(FIND, **{store: entity}))
        assert outcome.status is Status.ERROR
        assert said in outcome.reason
        assert "find" not in [name for name, _ in world.adapter.calls]


def test_a_loop_runs_operations_on_entities_only(world: World) -> None:
    path = world.write(loop("{name: wait, object: testRunner, arguments: {ms: 1}}"))
    with pytest.raises(ScenarioError, match=r"case.yml:11:.*: wait cannot stand here"):
        load(path)


class TestInterrupts:
    def test_the_first_ends_loops_and_the_second_the_run(self) -> None:
        loops = Loops()
        with interruption.listening(), interruption.politely(), interruption.first_interrupt(loops.end):
            hear(signal.SIGINT)
            assert loops.ended
            interruption.check()
            hear(signal.SIGINT)
            with pytest.raises(Interrupted):
                interruption.check()
            interruption.forget()

    def test_any_other_signal_ends_the_run_at_once(self) -> None:
        loops = Loops()
        with interruption.listening(), interruption.politely(), interruption.first_interrupt(loops.end):
            hear(signal.SIGTERM)
            assert not loops.ended
            with pytest.raises(Interrupted):
                interruption.check()
            interruption.forget()

    def test_afterwards_the_first_ends_the_run(self) -> None:
        with interruption.listening(), interruption.politely():
            with interruption.first_interrupt(lambda: None):
                pass
            hear(signal.SIGINT)
            with pytest.raises(Interrupted):
                interruption.check()
            interruption.forget()


def hear(number: signal.Signals) -> None:
    """Hear a signal long after the one before: two at once are one wish."""
    assert interruption._listener is not None
    interruption._listener._last = (0, 0.0)
    signal.raise_signal(number)
