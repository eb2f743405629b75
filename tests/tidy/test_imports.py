"""The shape of the house: who imports whom, types counted, and how many rooms there are."""

from __future__ import annotations

import pytest
from figures import (
    PACKAGES,
    STORAGE_FLOORS,
    arrows_of_storage,
    arrows_up,
    arrows_up_in_storage,
    circles,
    fields_of,
    folders,
    imports,
    local_imports,
    modules_passed,
    rooms,
    unread_arguments,
)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circle_has_more_than_three_files(package: str) -> None:
    assert [circle for circle in circles(imports(package, types=True)) if len(circle) > 3] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_that_runs_imports_in_a_circle(package: str) -> None:
    assert circles(imports(package, types=False)) == []


def test_a_circle_is_found_and_a_diamond_is_none() -> None:
    diamond = {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}
    assert circles(diamond) == []
    assert circles(diamond | {("d", "a")}) == [["a", "b", "c", "d"]]
    assert circles({("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "c")}) == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize(("package", "most"), [("fakeserver", 20), ("harness", 18)])
def test_a_package_has_as_many_rooms_as_a_reader_can_see_at_once(package: str, most: int) -> None:
    assert len(rooms(package)) <= most, rooms(package)


def test_fakeserver_imports_upwards_in_few_places() -> None:
    assert len(arrows_up()) <= 8, arrows_up()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_folder_has_as_many_modules_as_a_reader_can_see_at_once(package: str) -> None:
    assert {name: count for name, count in folders(package).items() if count > 25} == {}


def test_the_rooms_of_storage_know_few_of_one_another() -> None:
    within = [name for name in folders("fakeserver") if name.startswith("fakeserver/storage/")]
    assert sorted(within) == sorted(f"fakeserver/storage/{room}" for room in STORAGE_FLOORS)
    assert len(arrows_of_storage()) <= 25, arrows_of_storage()
    assert len(arrows_up_in_storage()) <= 4, arrows_up_in_storage()


def test_a_request_has_twenty_fields_at_most() -> None:
    assert len(fields_of("fakeserver/request/context.py", "RequestContext")) <= 20


def test_arguments_that_nothing_reads_begin_with_an_underscore() -> None:
    assert sum(map(unread_arguments, PACKAGES)) < 20


def test_imports_stand_at_the_top_but_for_what_few_runs_load() -> None:
    assert sum(map(local_imports, PACKAGES)) <= 59


def test_a_retried_insert_passes_few_modules() -> None:
    passed = modules_passed()
    assert len(passed["driver"]) <= 25, passed["driver"]
    assert len(passed["fakeserver"]) <= 28, passed["fakeserver"]
