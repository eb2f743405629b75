"""The shape of the house: who imports whom, types counted, and how many rooms there are."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain

import pytest
from figures import (
    FLOORS,
    PACKAGES,
    ROOT,
    STORAGE_FLOORS,
    arrows_of_storage,
    arrows_up,
    arrows_up_in_storage,
    circles,
    fields_of,
    folders,
    functions,
    imports,
    local_imports,
    modules_passed,
    rooms,
    sources,
    unread_arguments,
)
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


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


@pytest.mark.parametrize(("package", "most"), [("fakeserver", 8), ("harness", 4)])
def test_a_package_imports_upwards_in_few_places(package: str, most: int) -> None:
    at_the_top = {name.removesuffix(".py") for name in rooms(package)}
    assert set(chain.from_iterable(FLOORS[package])) == at_the_top | {"__main__"}
    assert len(arrows_up(package)) <= most, arrows_up(package)


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
    assert sum(map(unread_arguments, PACKAGES)) <= 16


def test_imports_stand_at_the_top_but_for_what_few_runs_load() -> None:
    assert sum(map(local_imports, PACKAGES)) <= 55


def test_a_reader_finds_the_rule_in_few_files() -> None:
    assert sum(len(sources(package)) for package in PACKAGES) <= 780


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "most"), [("mongowire", 0.14), ("driver", 0.13), ("fakeserver", 0.198), ("harness", 0.248)]
)
def test_few_helpers_are_named_in_one_place_only(package: str, most: float) -> None:
    assert functions(package).once <= most


PLAIN = """
import sys
from importlib import import_module

missing = set(sys.argv[1].split(","))


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(name=name.partition(".")[0])


sys.meta_path.insert(0, Missing())
for module in sys.argv[2].split(","):
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        print(module, error.name)
"""
EXTRAS = ("javascript", "geo", "compression", "tls", "otel", "speed", "simulation", "cluster")
LOADED_WHERE_IT_IS_THERE = {
    **dict.fromkeys(("driver.tracing.spans", "harness.adapters.reference.spans"), "opentelemetry"),
    **dict.fromkeys(("fakeserver.pytest_plugin", "harness.hunt.per_test"), "pytest"),
    **dict.fromkeys((f"harness.pytest_plugin{name}" for name in ("", ".items", ".options")), "pytest"),
}
"""The modules that need more than a plain installation, and what; nobody else loads them."""


def test_a_plain_installation_can_load_every_module_but_those_of_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(each).name for name in EXTRAS for each in project["optional-dependencies"][name]]
    names = {
        name
        for name, distributions in packages_distributions().items()
        if any(canonicalize_name(each) in map(canonicalize_name, wanted) for each in distributions)
    }
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in PACKAGES
        for path in sources(package)
        if path.name != "__main__.py"
    ]
    arguments = (",".join(names | {"pytest"}), ",".join(modules))
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert dict(line.split() for line in done.stdout.splitlines()) == LOADED_WHERE_IT_IS_THERE


def test_a_retried_insert_passes_few_modules() -> None:
    passed = modules_passed()
    assert len(passed["driver"]) <= 25, passed["driver"]
    assert len(passed["fakeserver"]) <= 28, passed["fakeserver"]
