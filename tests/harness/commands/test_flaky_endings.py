"""A run of the lab from its options to its exit code, when it does not go as planned."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import click
import pytest

from harness.commands.conform import command
from harness.commands.options.common import Options
from harness.commands.options.flaky import repeats_of
from harness.deployments.external import DeploymentError
from harness.planning.expectations import Expectations
from harness.planning.plan import Item, Settings
from harness.planning.result import ExitCode, Result, ResultStatus
from harness.report.outputs import Outputs, ResultFiles
from harness.report.terminal import Style
from harness.running.flake_lab import lab as lab_run
from harness.running.flake_lab.lab import LabRun, Repeats
from harness.running.run import PreparedRun
from harness.world.interruption import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ITEM = Item("spec/tiny::a", "tiny.yml", 0, "reference", "2026-07-08", "replicaset")


def test_servers_of_somebody_else_can_be_repeated() -> None:
    options = Options.of(command.make_context("conform", ["--repeat", "5"]))
    assert repeats_of(options, ["replicaset+uri"]) == Repeats(5)


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


def lab(monkeypatch: pytest.MonkeyPatch, end: BaseException, *complaints: str, watch: bool = False) -> LabRun:
    monkeypatch.setattr(lab_run, "run_items", Ending(end).run)
    run = PreparedRun(
        items=(ITEM,),
        settings=Settings(),
        expectations={"reference": Expectations()},
        complaints=complaints,
        note="1 case is left out",
        jobs=1,
        repeats=Repeats(3),
        outputs=Outputs(style=Style(), github=True),
        is_watched=watch,
    )
    return LabRun(run, ResultFiles({}))


def test_an_interrupted_run_tells_what_it_has_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    code = lab(monkeypatch, Interrupted(signal.SIGINT), "spec/broken.yml:1:2: no YAML").execute()
    told = capsys.readouterr()
    assert code is ExitCode.INTERRUPTED
    assert "1 case passed in one run: 20.7% or more, with 95% confidence" in told.out
    assert "1 case is left out" in told.out
    assert "::error title=unusable scenario" in told.out.replace("file=spec/broken.yml,line=1,col=2,", "")
    assert "1 unusable file, 2 runs not made, interrupted by SIGINT" in told.out
    assert told.err == "spec/broken.yml:1:2: no YAML\n"


def test_who_watches_ends_all_runs_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        lab(monkeypatch, Interrupted(signal.SIGINT), watch=True).execute()


def test_servers_that_do_not_answer_any_more_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(click.ClickException, match="nobody is there"):
        lab(monkeypatch, DeploymentError("nobody is there")).execute()
