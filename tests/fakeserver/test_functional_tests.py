"""The table of what a public suite says of our servers is made from its outcomes, and holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from functional_tests import (
    ABSENT,
    AREAS,
    PAGE,
    PEERS,
    Outcome,
    Place,
    area_of,
    counted,
    find_checkout,
    main,
    outcomes,
    replaced,
    rows,
    table_of,
    worse,
)
from sizes import size

if TYPE_CHECKING:
    from pathlib import Path

_FOUND = [
    Outcome("core/cursors", "standalone", passed=True),
    Outcome("core/cursors", "standalone", passed=False),
    Outcome("core/cursors", "replica set", passed=True),
    Outcome("changeStreams/insert", "replica set", passed=True),
]
_TABLE = """\
| area | standalone: passed of all, % | replica set: passed of all, % |
|---|---:|---:|
| `changeStreams/insert` | none | 1 of 1, 100.0 |
| `core/cursors` | 1 of 2, 50.0 | 1 of 1, 100.0 |
| **all** | 1 of 2, 50.0 | 2 of 2, 100.0 |
"""


@pytest.mark.parametrize(
    ("folders", "area"),
    [
        ("core/cursors/commands/getMore", "core/cursors"),
        ("core/operator/expressions/array/map", "core/operator/expressions"),
        ("core/operator/stages/search", None),
        ("changeStreams/insert", "changeStreams/insert"),
    ],
)
def test_an_area_is_the_first_folders_of_a_case(folders: str, area: str | None) -> None:
    assert area_of(f"documentdb_tests/compatibility/tests/{folders}/test_x.py::test_y[mongodb-z]") == area


def test_the_table_counts_what_passes_by_area_and_deployment() -> None:
    assert rows(counted(_FOUND)) == _TABLE


def test_the_page_gets_another_table_between_its_marks() -> None:
    place = Place("figures")
    assert place.filled(f"a\n{place.begin}old\n{place.end}b\n", _TABLE) == (
        f"a\n{place.begin}{_TABLE}{place.end}b\n"
    )
    with pytest.raises(ValueError, match="no marks"):
        place.filled("a page", _TABLE)


@pytest.mark.parametrize("place", [AREAS, PEERS], ids=lambda place: place.name)
def test_the_page_tells_its_tables(place: Place) -> None:
    table = table_of(place.text(PAGE.read_text()))
    assert sum(total for _passed, total in table.values()) > 5_000
    assert ("core/cursors", "standalone" if place is AREAS else "pushbackd") in table


def test_a_table_is_read_from_its_text() -> None:
    assert table_of(_TABLE) == counted(_FOUND)
    assert table_of(rows({})) == {}


def test_servers_of_other_projects_have_columns_of_their_own() -> None:
    found = [Outcome("core/cursors", "pushbackd", passed=True), Outcome("core/cursors", "Peer", passed=False)]
    text = rows(counted(found), ("pushbackd", "Peer"))
    assert text.splitlines()[2] == "| `core/cursors` | 1 of 1, 100.0 | 0 of 1, 0.0 |"
    assert table_of(text) == counted(found)


@pytest.mark.parametrize(
    ("folders", "replaces"),
    [
        ([], True),
        (["core"], True),
        (["core/cursors"], True),
        (["core/cursors/getMore"], False),
        (["core/cur"], False),
    ],
    ids=str,
)
def test_a_run_of_folders_replaces_the_areas_that_they_hold(folders: list[str], *, replaces: bool) -> None:
    key = ("core/cursors", "standalone")
    was = counted(_FOUND)
    assert replaced(was, {key: (2, 2)}, folders) == was | ({key: (2, 2)} if replaces else {})


def test_an_area_that_answers_less_well_than_the_page_says_is_told() -> None:
    was = counted(_FOUND)
    assert worse(was, was) == []
    failed = counted([*_FOUND, Outcome("core/cursors", "replica set", passed=False)])
    assert worse(was, failed) == ["core/cursors: 1 of 2, 50.0 on a replica set, not 1 of 1, 100.0"]


def test_without_a_checkout_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PUSHBACKD_FUNCTIONAL_TESTS", str(tmp_path))
    assert main([]) == 2
    assert capsys.readouterr().err == f"{ABSENT}\n"


@pytest.mark.skipif(not size("functional"), reason="PUSHBACKD_TESTS=functional=1 runs the functional tests")
def test_each_area_answers_as_well_as_the_page_says() -> None:
    checkout = find_checkout()
    if checkout is None:
        pytest.skip(ABSENT)
    assert worse(table_of(AREAS.text(PAGE.read_text())), counted(outcomes(checkout))) == []
