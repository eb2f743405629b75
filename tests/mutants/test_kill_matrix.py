"""The kill matrix speaks of the wrong drivers and the cases that there are today."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mutant_matrix import write_kill_matrix
from mutant_record import SCENARIOS, SURVIVED, MutantRecord

from harness.authoring.mutants.mutant import CATALOGUE, load_mutants
from harness.explaining.kill_matrix import WrongDriver, read, wrong_drivers
from harness.running.discovery import discover
from harness.running.plan import load_all

if TYPE_CHECKING:
    from collections.abc import Iterator

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
