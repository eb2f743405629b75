"""The kill matrix speaks of the wrong drivers and the cases that there are today."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import mutant_matrix
from mutant_matrix import write_kill_matrix, write_kills
from mutant_record import SCENARIOS, SURVIVED, MutantRecord

from harness.authoring.mutants.mutant import CATALOGUE, load_mutants
from harness.explaining.kill_matrix import WrongDriver, read, wrong_drivers
from harness.planning.discovery import discover
from harness.planning.plan import load_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

FOLDER = Path(__file__).parent
MUTANTS = {mutant.name: mutant for mutant in load_mutants(CATALOGUE) if mutant.kind == "driver"}
RECORD = MutantRecord.read(FOLDER)
AGAIN = "python tests/support/mutant_matrix.py --kind drivers --kills"


def test_the_matrix_has_wrong_drivers_of_the_catalogue_in_its_words() -> None:
    said = {driver.name: (driver.rule, driver.wrong) for driver in wrong_drivers()}
    assert said == {name: (MUTANTS[name].rule, MUTANTS[name].wrong) for name in said if name in MUTANTS}, (
        AGAIN
    )


def test_the_matrix_has_cases_that_exist() -> None:
    known = {case.id for case in load_all(discover(())).cases}
    assert {case for driver in wrong_drivers() for case in driver.fails} - known == set(), AGAIN


def test_every_wrong_driver_that_a_scenario_finds_is_in_the_matrix_with_that_scenario() -> None:
    assert list(_missing()) == [], AGAIN


def _missing() -> Iterator[str]:
    fails = {driver.name: driver.fails for driver in wrong_drivers()}
    for name in MUTANTS:
        killer = RECORD.killer(name, SCENARIOS)
        case = (killer or SURVIVED).rpartition(" [")[0]
        if case and case not in fails.get(name, ()):
            yield f"{name}: {case}"


def test_a_matrix_is_read_as_it_was_written(tmp_path: Path) -> None:
    drivers = (WrongDriver("a", "CB-2", "It waits not.", frozenset({"f/g::h", "f/g::i", "f/k::l: m"})),)
    write_kill_matrix(
        tmp_path / "matrix.json", [*drivers, WrongDriver("b", "CB-3", "Nothing fails.", frozenset())]
    )
    assert read(tmp_path / "matrix.json") == drivers


def test_what_is_known_of_files_that_are_not_tried_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = "client-backpressure/waits-hold-no-connection"
    case = f"{tried}::while a read waits for its retry another read has its connection"
    mutant = MUTANTS["the connection is kept during the backoff"]
    before = WrongDriver(mutant.name, mutant.rule, mutant.wrong, frozenset({"f/g::h", f"{tried}::gone"}))
    monkeypatch.setattr(mutant_matrix, "KILLS", tmp_path / "matrix.json")
    write_kill_matrix(tmp_path / "matrix.json", [before])

    class Tried:
        """A matrix in which one case kills."""

        def __init__(self, *_: object) -> None: ...

        def kills(self, _: object) -> dict[str, tuple[str, ...]]:
            return {mutant.name: (case,)}

    monkeypatch.setattr(mutant_matrix, "RecordedMatrix", Tried)
    named = [path for path in discover(()) if path.stem == "waits-hold-no-connection"]
    write_kills([mutant], [mutant], MutantRecord(), paths=named, jobs=1)
    (after,) = read(tmp_path / "matrix.json")
    assert after.fails == {"f/g::h", case}
