"""A run of the lab from its options to its exit code, when it does not go as planned."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import click
import pytest

from harness.conform import command
from harness.expectations import Expectations
from harness.flake_lab import command as lab_command
from harness.flake_lab.command import LabReport, LabRun, repeats_of
from harness.flake_lab.lab import Repeats
from harness.interruption import Interrupted
from harness.plan import Item, Settings
from harness.report.terminal import Style
from harness.result import ExitCode, Result, ResultStatus
from harness.survey import DeploymentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ITEM = Item("spec/tiny::a", "tiny.yml", 0, "reference", "2026-07-08", "replicaset")


@pytest.mark.parametrize("asked", [{"perturb": True}, {"schedule": "start:1=1ms"}])
def test_servers_of_somebody_else_can_be_repeated_but_not_disturbed(asked: dict[str, object]) -> None:
    context = click.Context(command)
    context.params = {"repeat": 5, "perturb": False, "schedule": None, "max_delay": 50}
    assert repeats_of(context, ["replicaset+uri"]) == Repeats(5)
    context.params |= asked
    with pytest.raises(click.UsageError, match="those servers cannot be disturbed; use --repeat alone"):
        repeats_of(context, ["replicaset+uri"])


class Ending:
    """Runs one item well, and ends the run with the second."""

    def __init__(self, end: BaseException) -> None:
        self._end = end

    def run(
        self, items: Mapping[int, Item], _: Settings, *, jobs: int, on_result: Callable[[int, Result], None]
    ) -> None:
        assert jobs == 1
        for place, item in items.items():
            if item.seed:
                raise self._end
            status = ResultStatus.PASSED
            on_result(place, Result(item.id, status, item.topology, item.adapter, item.edition))


def lab(monkeypatch: pytest.MonkeyPatch, end: BaseException, *, watch: bool = False) -> LabRun:
    monkeypatch.setattr(lab_command, "run_items", Ending(end).run)
    report = LabReport(
        style=Style(), color=None, json=False, github=True, junit=None, note="1 case is left out", watch=watch
    )
    return LabRun(Repeats(3), Settings(), {"reference": Expectations()}, 1, report)


def test_an_interrupted_run_tells_what_it_has_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    code = lab(monkeypatch, Interrupted(signal.SIGINT)).run([ITEM], ["spec/broken.yml:1:2: no YAML"])
    told = capsys.readouterr()
    assert code is ExitCode.INTERRUPTED
    assert "1 case passed in one run: 20.7% or more, with 95% confidence" in told.out
    assert "1 case is left out" in told.out
    assert "::error title=unusable scenario" in told.out.replace("file=spec/broken.yml,line=1,col=2,", "")
    assert "1 unusable file, 2 runs not made, interrupted by SIGINT" in told.out
    assert told.err == "spec/broken.yml:1:2: no YAML\n"


def test_who_watches_ends_all_runs_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        lab(monkeypatch, Interrupted(signal.SIGINT), watch=True).run([ITEM], [])


def test_servers_that_do_not_answer_any_more_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(click.ClickException, match="nobody is there"):
        lab(monkeypatch, DeploymentError("nobody is there")).run([ITEM], [])
