"""What the swarm draws: one schedule for a seed, of every kind, and always a scenario that can be run."""

from __future__ import annotations

import json
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import pytest

from harness.adapters.base import Feature
from harness.adapters.registry import EDITIONS
from harness.authoring.swarm.answers import BASES, FINAL, RETRYABLE, SHUTDOWNS, STATE_CHANGES
from harness.authoring.swarm.drawing import TARGETS, draw
from harness.authoring.swarm.faults import KINDS
from harness.authoring.swarm.scenario import flow, text_of
from harness.authoring.swarm.work import OTHERS, READS, WRITES, Numbers, driver_of
from harness.planning.plan import loaded
from harness.unified.model import Case
from harness.unified.server_side.oracles import ALL, ORACLES
from mongowire.documents.reader import read_yaml

if TYPE_CHECKING:
    from pathlib import Path

    from harness.authoring.swarm.schedule import SwarmSchedule

SEEDS = range(60)
EVERYTHING = frozenset(Feature)


def names(schedule: SwarmSchedule) -> set[str]:
    return {step.operation["name"] for step in schedule.steps}


@pytest.mark.parametrize("edition", EDITIONS)
def test_a_seed_draws_the_same_schedule_each_time(edition: str) -> None:
    assert [draw(seed, edition=edition) for seed in SEEDS] == [draw(seed, edition=edition) for seed in SEEDS]
    assert len({draw(seed, edition=edition) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("edition", EDITIONS)
def test_every_schedule_is_a_scenario_without_a_flaw(edition: str, tmp_path: Path) -> None:
    features = driver_of("reference", edition).features
    for seed in SEEDS:
        path = tmp_path / f"{edition}-{seed}.yml"
        path.write_text(text_of(draw(seed, edition=edition), features, ALL))
        (case,) = loaded(str(path)).cases
        assert isinstance(case, Case)
        assert case.flaw is None, case.flaw
        assert case.server_side is not None
        assert case.server_side.rules is not None
        assert case.server_side.rules.names == tuple(ORACLES)


def test_seeds_draw_every_deployment_every_kind_of_case_and_every_fault() -> None:
    schedules = [draw(seed, edition=EDITIONS[0]) for seed in range(300)]
    assert {schedule.target for schedule in schedules} == set(TARGETS)
    drawn = set.union(*map(names, schedules))
    assert {"withTransaction", "runOnThread", "repeat", "bulkWrite", "runCommand", "close"} <= drawn
    met = {step.text for schedule in schedules for step in schedule.steps}
    assert all(
        any(word in text for text in met) for word in ("462", "closeConnection", "hello", "beforeReply")
    )
    assert len(KINDS) > 10


def test_seeds_draw_every_answer_and_every_kind_of_work() -> None:
    schedules = [draw(seed, edition=EDITIONS[1]) for seed in range(400)]
    texts = " ".join(step.text for schedule in schedules for step in schedule.steps)
    for code in (*STATE_CHANGES, *SHUTDOWNS, *RETRYABLE, *FINAL):
        assert f'"error": {code}' in texts
    for base in BASES:
        assert f'"baseBackoffMS": {base}' in texts
    work = {**READS, **WRITES, **OTHERS}
    asked = {make(Numbers(Random(0)))["name"] for make in work.values()}
    assert asked <= set.union(*map(names, schedules))


def test_a_deployment_is_drawn_of_those_that_are_asked_for() -> None:
    assert {draw(seed, edition=EDITIONS[0], targets=["single"]).target for seed in SEEDS} == {"single"}


def test_what_an_adapter_lacks_is_left_out() -> None:
    for seed in SEEDS:
        text = text_of(draw(seed, edition=EDITIONS[0]), frozenset(), ALL)
        for word in (
            "jitter",
            "observeLogMessages",
            "startTransaction",
            "clientBulkWrite",
            "timeoutMS:",
            "adaptive",
        ):
            assert word not in text


def test_a_case_undoes_what_would_outlive_it() -> None:
    texts = [text_of(draw(seed, edition=EDITIONS[0]), EVERYTHING, ALL) for seed in range(200)]
    assert any("addFault" in text for text in texts)
    assert all(("addFault" in text) == ("removeFault" in text) for text in texts)
    assert all(("addRule" in text) == ("removeRule" in text) for text in texts)
    base = "externalClientBaseBackoffMS"
    assert all((base in text) == (f"{base}: 0" in text) for text in texts)


def test_every_smaller_schedule_has_less_in_it() -> None:
    for seed in SEEDS:
        schedule = draw(seed, edition=EDITIONS[0])
        for smaller in islice(schedule.smaller(), 50):
            assert size(smaller) < size(schedule)


def test_what_a_driver_says_that_it_lacks_is_taken_out_of_a_schedule() -> None:
    schedule = next(
        schedule
        for seed in range(200)
        if "bulkWrite" in names(schedule := draw(seed, edition=EDITIONS[0]))
        and "maxPoolSize" in dict(schedule.options)
    )
    left = schedule.without_what_lacks("x: no bulkWrite on a collection")
    assert left is not None
    assert names(schedule) - names(left) == {"bulkWrite"}
    assert left.options == schedule.options
    left = schedule.without_what_lacks("x: the driver has no option maxPoolSize")
    assert left is not None
    assert {*dict(schedule.options)} - {*dict(left.options)} == {"maxPoolSize"}
    assert left.steps == schedule.steps
    assert schedule.without_what_lacks("x: needs servers from 4.4 on") is None


def size(schedule: SwarmSchedule) -> tuple[int, int]:
    repeats = [step.operation.get("arguments", {}) for step in schedule.steps]
    times = sum(each.get("times", 0) + _times(each.get("failPoint", {}).get("mode")) for each in repeats)
    times += sum(len(each.get("command", {}).get("rule", {}).get("sequence", ())) for each in repeats)
    return len(schedule.steps) + len(schedule.options) + len(schedule.traits), times


def _times(mode: object) -> int:
    return int(mode.get("times", 0)) if isinstance(mode, dict) else 0


@pytest.mark.parametrize(
    "value",
    [{"a": [1, {"b": "yes"}], "$inc": {"n": -1}}, ["x y", "8.2", "null", ""], {"_id": True, "c": None}],
)
def test_a_value_on_one_line_of_yaml_reads_as_itself(value: object, tmp_path: Path) -> None:
    document, _ = read_yaml(f"value: {flow(value)}\n", tmp_path / "a.yml")
    assert json.dumps(document.value["value"]) == json.dumps(value)
