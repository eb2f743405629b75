"""Mutants die of the cases that are recorded for them, and the page tells what the record says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from mutant_matrix import FOLDER, PAGE, ROOT
from mutant_page import MARK, body
from mutant_record import SCENARIOS, SURVIVED, TESTS, MutantRecord
from sizes import is_full

from harness.authoring.mutants.mutant import CATALOGUE, Mutant, load_mutants

if TYPE_CHECKING:
    from pathlib import Path

MUTANTS = load_mutants(CATALOGUE)
RECORD = MutantRecord.read(FOLDER)
SAMPLE = 4


TOOL = (str(ROOT / "tests" / "support" / "mutant_matrix.py"), "--search", "known", "--least", "100")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own: it forks, which a process with threads should not."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def recorded(suite: str) -> list[Mutant]:
    """The mutants that a case is recorded for."""
    return [mutant for mutant in MUTANTS if RECORD.killer(mutant.name, suite) not in (None, SURVIVED)]


def by_name(mutants: list[Mutant]) -> str:
    return " or ".join(f'"{mutant.name}"' for mutant in mutants)


@pytest.mark.slow
def test_a_sample_dies_of_the_recorded_cases() -> None:
    killed = recorded(SCENARIOS)
    sample = killed[:: max(1, len(killed) // SAMPLE)]
    done = run(*TOOL, "-k", by_name(sample))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_named_file_is_tried_whatever_its_folder_is_called(tmp_path: Path) -> None:
    file = ROOT / "spec_tests" / "client-backpressure" / "backoff.yml"
    mine = shutil.copy(file, tmp_path / "mine.yml")
    done = run(
        "-m", "harness", "mutants", str(mine), "--least", "100", "-k", '"no backoff before the first retry"'
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not is_full("mutants"), reason="PUSHBACKD_TESTS=mutants=1 tries all")
def test_every_mutant_dies_of_the_recorded_case() -> None:
    done = run(*TOOL, "-k", by_name(recorded(SCENARIOS)))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_survivor_has_a_reason_and_what_dies_has_none() -> None:
    for mutant in MUTANTS:
        if mutant.verdict in ("equivalent", "not observable"):
            assert RECORD.killer(mutant.name, SCENARIOS) in (None, SURVIVED), mutant.name


def test_every_mutant_is_shown_to_be_wrong() -> None:
    tried = [mutant for mutant in MUTANTS if RECORD.killer(mutant.name, TESTS) is not None]
    shown = {mutant.name for suite in (SCENARIOS, TESTS) for mutant in recorded(suite)}
    assert [mutant.name for mutant in tried if not (mutant.name in shown or mutant.shown_by)] == []


def test_the_page_tells_what_the_record_says() -> None:
    written = PAGE.read_text(encoding="utf-8").partition(MARK)[2]
    assert written.strip() == body(MUTANTS, RECORD).strip(), "python tests/support/mutant_matrix.py --write"
