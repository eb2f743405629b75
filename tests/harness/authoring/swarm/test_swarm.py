"""`pushbackd swarm`: no false alarm, wrong drivers found, failures shrunk and written as scenarios."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sizes import again, size

from driver.execute import Executor
from driver.policy.backpressure import Backoff
from driver.policy.retry import RetryPolicy
from harness.adapters.registry import EDITIONS
from harness.authoring.swarm.drawing import draw
from harness.authoring.swarm.running import SwarmRunner
from harness.authoring.swarm.session import broken_by, shrink
from harness.authoring.swarm.work import driver_of
from harness.planning.plan import Settings
from harness.planning.result import ExitCode, ResultStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result as Done

    from harness.authoring.swarm.schedule import SwarmSchedule
    from harness.planning.result import Result

FEW = range(24)
FALSE_ALARMS = Path(__file__).parent / "false_alarms"
VIRTUAL = Settings(time="virtual", case_timeout=3600.0)


def failures(edition: str, seeds: range) -> Iterator[tuple[int, Result]]:
    """Yield the seeds whose schedules fail, with their results, as soon as each is known."""
    results: list[Result] = []

    def take(_: SwarmSchedule, result: Result) -> None:
        results.append(result)

    with SwarmRunner(driver_of("reference", edition), VIRTUAL, jobs=1) as runner:
        for seed in seeds:
            results.clear()
            runner.run([draw(seed, edition=edition)], take)
            if results[0].status is ResultStatus.FAILED:
                yield seed, results[0]


def first_broken(oracle: str) -> int:
    """Return the first of a few seeds whose schedule breaks an oracle's rule."""
    return next(seed for seed, result in failures(EDITIONS[0], FEW) if broken_by(result) == oracle)


@pytest.mark.parametrize("edition", EDITIONS)
def test_the_reference_driver_breaks_no_rule(edition: str) -> None:
    half = size("swarm") // 2
    seeds = range(half) if edition == EDITIONS[0] else range(half, 2 * half)
    failed = [(result.id, result.reason) for _seed, result in failures(edition, seeds)]
    assert failed == [], again("swarm")


@pytest.mark.parametrize("path", sorted(FALSE_ALARMS.glob("*.yml")), ids=lambda path: path.stem)
def test_what_was_a_false_alarm_passes(path: Path, pushbackd: Callable[..., Done]) -> None:
    ends = [
        pushbackd("conform", path, "--topology", "all", "--edition", edition).exit_code
        for edition in EDITIONS
    ]
    assert sorted(ends) == [ExitCode.PASSED, ExitCode.NOTHING_RAN]


def long_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "before", lambda *_args, **_how: 3.0)


def one_more_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    make = RetryPolicy.of
    more = lambda *args, **how: replace(make(*args, **how), max_adaptive_retries=9)  # noqa: E731
    monkeypatch.setattr(RetryPolicy, "of", more)


def new_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    message = Executor._message

    def anew(self: Executor, run: Any, max_time_ms: int | None) -> Any:
        run.transaction_number = None
        return message(self, run, max_time_ms)

    monkeypatch.setattr(Executor, "_message", anew)


WRONG: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (long_backoff, "backoff"),
    (one_more_retry, "limit"),
    (new_numbers, "transaction-id"),
]


@pytest.mark.parametrize(("plant", "oracle"), WRONG)
def test_a_wrong_driver_is_found_by_the_oracle_of_its_rule(
    plant: Callable[[pytest.MonkeyPatch], None], oracle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert first_broken(oracle) in FEW


def test_a_failure_is_shrunk_to_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    new_numbers(monkeypatch)
    schedule = draw(first_broken("transaction-id"), edition=EDITIONS[0])
    with SwarmRunner(driver_of("reference", EDITIONS[0]), VIRTUAL, jobs=1) as runner:
        smallest, result = shrink(runner, schedule, "transaction-id")
    assert result is not None
    assert broken_by(result) == "transaction-id"
    assert len(smallest.steps) == 2  # a fault, and the write that it meets
    assert smallest.options == ()


def test_a_written_failure_fails_in_conform_and_passes_with_the_right_driver(
    tmp_path: Path, pushbackd: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scenario.yml"
    with monkeypatch.context() as patched:
        new_numbers(patched)
        done = pushbackd(
            "swarm", "--seeds", 8, "--topology", "replicaset", "--jobs", 1, "-q", "--write", path
        )
        assert done.exit_code == 1, done.output
        assert f"{path}: written; pushbackd conform {path} --topology replicaset --profile 8.2" in done.output
        failed = pushbackd("conform", path, "--topology", "replicaset", "--time", "virtual", "--jobs", 1)
        assert failed.exit_code == 1, failed.output
        assert " is broken: " in failed.output
    passed = pushbackd("conform", path, "--topology", "replicaset", "--time", "virtual", "--jobs", 1)
    assert passed.exit_code == 0, passed.output


def test_lines_of_json_name_seed_rule_and_sentence(
    pushbackd: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    long_backoff(monkeypatch)
    done = pushbackd("swarm", "--seeds", 6, "--jobs", 1, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 1
    assert [line["seed"] for line in lines[:-1]] == list(range(6))
    broken = [line for line in lines[:-1] if line.get("oracle") == "backoff"]
    assert broken
    assert "CB-2" in broken[0]["rules"]
    assert lines[-1]["summary"]["schedules"] == 6
    assert lines[-1]["summary"]["broken"]["backoff"] == [line["seed"] for line in broken]


def test_a_known_finding_is_passed_over_and_others_of_its_rule_are_not(
    pushbackd: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    long_backoff(monkeypatch)
    options = ["swarm", "--seeds", 8, "--topology", "single", "--jobs", 1, "--json", "--without", "limit"]

    def broken(known: str) -> list[int]:
        lines = pushbackd(*options, "--without", known).stdout.splitlines()
        found: list[int] = json.loads(lines[-1])["summary"]["broken"].get("backoff", [])
        return found

    everything = broken("backoff:of another client")
    assert everything
    assert broken("backoff:of client") == broken("backoff") == []


def test_one_seed_is_repeated(pushbackd: Callable[..., Done]) -> None:
    done = pushbackd("swarm", "--seed", 5, "--jobs", 1)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0].split()[0] == "5"
    assert done.stdout.splitlines()[-1] == "1 schedules: 1 passed"


def test_a_budget_ends_the_drawing(pushbackd: Callable[..., Done]) -> None:
    done = pushbackd("swarm", "--seeds", 100_000, "--budget", "10ms", "--jobs", 1, "-q")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("4 schedules: ")


@pytest.mark.parametrize(
    ("options", "complaint", "code"),
    [
        (["--adapter", "pymongo", "--time", "virtual"], "pymongo runs in real time only", 2),
        (["--adapter", "pymongo", "--edition", "2026-02-20"], "pymongo follows 2026-07-08", 2),
        (["--adapter", "cmd:false"], "Error: ", 2),
        (["--without", "lables"], "there is no oracle 'lables': did you mean 'labels'?", 2),
        (["--without", "labels:("], "'(' is no regular expression", 2),
    ],
)
def test_what_cannot_be_judged_is_refused_with_the_reason(
    options: list[str], complaint: str, code: int, pushbackd: Callable[..., Done]
) -> None:
    done = pushbackd("swarm", *options)
    assert done.exit_code == code
    assert complaint in done.output


@pytest.mark.slow
def test_pymongo_is_judged_in_real_time(pushbackd: Callable[..., Done]) -> None:
    done = pushbackd("swarm", "--adapter", "pymongo", "--seeds", 4, "--topology", "single", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [line["status"] for line in lines[:-1]] == ["passed"] * 4, done.output
    assert "tokens" in done.stderr  # which PyMongo has none of
