"""`repeat`, `assertRetryTokens` and a client's `jitter`: what scenarios may ask beyond the format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scenario_world import ENTITIES, World

from harness.adapters.base import ErrorReport, Feature
from harness.unified.errors import ScenarioError
from harness.unified.loader import load
from harness.unified.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FIND = "{name: find, object: collection0, arguments: {filter: {}}}"
COUNT = "{name: countDocuments, object: collection0, arguments: {filter: {}}, expectResult: 1}"
FAIL_POINT = (
    "{name: failPoint, object: testRunner,"
    " arguments: {client: client0, failPoint: {configureFailPoint: f, mode: alwaysOn}}}"
)
OVERLOADED = ErrorReport("refused", code=462)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def repeat(times: object, *operations: str) -> str:
    inside = ", ".join(operations)
    return f"- {{name: repeat, object: testRunner, arguments: {{times: {times}, operations: [{inside}]}}}}"


def tokens(expected: object) -> str:
    arguments = f"{{client: client0, tokens: {expected}}}"
    return f"- {{name: assertRetryTokens, object: testRunner, arguments: {arguments}}}"


def called(world: World) -> list[str]:
    return [name for name, _ in world.adapter.calls if name != "endSession"]


class TestRepeat:
    def test_operations_run_in_their_order_as_often_as_it_says(self, world: World) -> None:
        world.adapter.answers["countDocuments"] = 1
        assert world.run(repeat(3, FIND, COUNT)).status is Status.PASSED
        assert called(world) == ["find", "countDocuments"] * 3

    def test_operations_of_the_runner_are_repeated_too(self, world: World) -> None:
        assert world.run(repeat(2, FAIL_POINT, FIND)).status is Status.PASSED
        assert called(world) == ["runCommand", "find"] * 2

    def test_it_stands_within_itself(self, world: World) -> None:
        inner = repeat(2, FIND).removeprefix("- ")
        assert world.run(repeat(2, inner)).status is Status.PASSED
        assert called(world) == ["find"] * 4

    def test_it_ends_at_the_first_operation_that_goes_wrong(self, world: World) -> None:
        world.adapter.answers["countDocuments"] = lambda _: 1 if len(world.adapter.calls) < 3 else 2
        outcome = world.run(repeat(5, COUNT))
        assert (outcome.status, called(world)) == (Status.FAILED, ["countDocuments"] * 3)
        assert outcome.reason == "countDocuments returned another result: expected 1, got 2"

    def test_an_expected_error_is_expected_each_time(self, world: World) -> None:
        world.adapter.answers["find"] = OVERLOADED
        failing = FIND.removesuffix("}") + ", expectError: {errorCode: 462}}"
        assert world.run(repeat(3, failing)).status is Status.PASSED
        assert called(world) == ["find"] * 3

    @pytest.mark.parametrize("times", [0, -1, 1.5, "true", "many"])
    def test_times_is_an_integer_from_1_on(self, world: World, times: object) -> None:
        outcome = world.run(repeat(times, FIND))
        assert outcome.status is Status.ERROR
        assert outcome.reason.startswith("times must be an integer from 1 on, is ")

    def test_without_operations_it_is_refused(self, world: World) -> None:
        with pytest.raises(ScenarioError, match=r"operations: is empty \(give at least one operation\)"):
            load(world.write(repeat(2)))


class TestTokens:
    @pytest.mark.parametrize(("there", "expected"), [(1000, "1000"), (995.1, "995.1"), (0.1 + 0.2, "0.3")])
    def test_the_number_is_compared_without_regard_to_rounding(
        self, world: World, there: float, expected: str
    ) -> None:
        world.adapter.tokens = there
        assert world.run(tokens(expected)).status is Status.PASSED

    @pytest.mark.parametrize(
        ("there", "reason"),
        [
            (994.9, "expected 995 retry tokens, client 'client0' has 994.9"),
            (995.01, "expected 995 retry tokens, client 'client0' has 995.01"),
            (None, "expected 995 retry tokens, client 'client0' has no token bucket (adaptiveRetries)"),
        ],
    )
    def test_another_number_fails_the_case(self, world: World, there: float | None, reason: str) -> None:
        world.adapter.tokens = there
        outcome = world.run(tokens(995))
        assert (outcome.status, outcome.reason) == (Status.FAILED, reason)

    def test_null_is_no_bucket(self, world: World) -> None:
        world.adapter.tokens = None
        assert world.run(tokens("null")).status is Status.PASSED

    def test_a_bucket_that_should_not_be_there_fails_the_case(self, world: World) -> None:
        world.adapter.tokens = 1000
        outcome = world.run(tokens("null"))
        reason = "expected no token bucket, client 'client0' has one with 1000 tokens"
        assert (outcome.status, outcome.reason) == (Status.FAILED, reason)

    def test_a_driver_that_does_not_show_its_tokens_skips_the_case(self, world: World) -> None:
        world.adapter.features -= {Feature.RETRY_TOKENS}
        outcome = world.run(tokens(995))
        assert outcome.status is Status.SKIPPED
        assert outcome.reason == (
            "assertRetryTokens needs a driver with RETRY_TOKENS:"
            " The number of tokens in a client's retry token bucket can be read."
        )

    @pytest.mark.parametrize("expected", [-1, "many", "true"])
    def test_what_is_no_number_of_tokens_is_an_error(self, world: World, expected: object) -> None:
        outcome = world.run(tokens(expected))
        assert outcome.status is Status.ERROR
        assert outcome.reason.startswith(
            "tokens must be a number from 0 on, or null for no token bucket, is "
        )


def head(jitter: str) -> str:
    return ENTITIES.replace("id: client0, observe", f"id: client0, pushbackd: {jitter}, observe")


class TestJitter:
    @pytest.mark.parametrize("value", [0, 1])
    def test_a_number_reaches_the_driver(self, world: World, value: int) -> None:
        assert world.run("", head=head(f"{{jitter: {value}}}")).status is Status.PASSED
        (client,) = world.adapter.clients
        assert (client.spec.jitter, client.spec.jitter_seed) == (value, None)

    def test_a_seed_is_drawn_from_the_run_and_the_same_in_each_run(self, world: World) -> None:
        for _ in range(2):
            world.run("", head=head("{jitter: seeded}"))
        first, second = (client.spec for client in world.adapter.clients)
        assert first.jitter is None
        assert first.jitter_seed == second.jitter_seed
        assert isinstance(first.jitter_seed, int)

    def test_without_it_a_client_keeps_its_own(self, world: World) -> None:
        world.run("")
        (client,) = world.adapter.clients
        assert (client.spec.jitter, client.spec.jitter_seed) == (None, None)

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ("{jitter: 2}", "2 is not one of"),
            ("{jitter: half}", "'half' is not one of"),
            ("{}", "pushbackd: is empty"),
            ("{jiter: 0}", "jiter: unknown field (did you mean 'jitter'?)"),
        ],
    )
    def test_another_value_is_refused_at_its_place(self, world: World, value: str, said: str) -> None:
        with pytest.raises(ScenarioError) as raised:
            load(world.write("", head=head(value)))
        assert said in str(raised.value)
        assert ":4:" in str(raised.value)

    def test_a_driver_whose_jitter_cannot_be_set_skips_the_case(self, world: World) -> None:
        world.adapter.features -= {Feature.JITTER}
        outcome = world.run("", head=head("{jitter: 0}"))
        assert outcome.status is Status.SKIPPED
        assert outcome.reason.startswith("jitter needs a driver with JITTER: ")


def test_a_client_that_is_made_within_a_case_may_have_a_jitter(world: World) -> None:
    made: Mapping[str, Any] = {"id": "second", "pushbackd": {"jitter": 1}}
    entity = "{client: {id: second, pushbackd: {jitter: 1}}}"
    outcome = world.run(
        f"- {{name: createEntities, object: testRunner, arguments: {{entities: [{entity}]}}}}"
    )
    assert outcome.status is Status.PASSED
    assert world.adapter.clients[1].spec.jitter == made["pushbackd"]["jitter"]
