"""`pushbackd conform --last-failed`: the cases that failed the last time that they ran."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.planning.plan import forget
from harness.world.cache_folder import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


PASSES, BREAKS = "failCommand", "noSuchFailPoint"


def scenario(cases: dict[str, str]) -> str:
    """Return a scenario with a case for each description, which sets the fail point of a name."""

    def operation(fail_point: str) -> dict[str, Any]:
        wanted = {"configureFailPoint": fail_point, "mode": "off"}
        return {
            "name": "failPoint",
            "object": "testRunner",
            "arguments": {"client": "c", "failPoint": wanted},
        }

    return json.dumps(
        {
            "description": "x",
            "schemaVersion": "1.0",
            "createEntities": [{"client": {"id": "c", "useMultipleMongoses": False}}],
            "tests": [{"description": name, "operations": [operation(of)]} for name, of in cases.items()],
        }
    )


@pytest.fixture
def ran(pushbackd: Any, write: Callable[..., Path]) -> Callable[..., tuple[list[str], str]]:
    """Return a function that runs cases, and returns those that ran and what was said of the choice."""

    def run(*arguments: object, **cases: str) -> tuple[list[str], str]:
        forget()  # that the file was read before, with other cases
        path = write(scenario(cases))
        done = pushbackd("conform", "--jobs", 1, "-v", *arguments, path)
        assert done.exit_code in (0, 1), done.output
        said = next((line for line in done.stderr.splitlines() if line.startswith("--last-failed")), "")
        return [name for name in cases if f"::{name} " in done.stdout.replace("\n", " ")], said

    return run


def test_cases_that_failed_run_again_until_they_pass(ran: Callable[..., tuple[list[str], str]]) -> None:
    ran(a=PASSES, b=BREAKS, c=BREAKS)
    assert ran("--last-failed", a=PASSES, b=BREAKS, c=PASSES) == (
        ["b", "c"],
        "--last-failed: runs 2 of 3 cases: those that failed the last time",
    )
    assert ran("--lf", a=PASSES, b=BREAKS, c=PASSES)[0] == ["b"]


def test_where_none_failed_all_run_and_that_is_said(
    ran: Callable[..., tuple[list[str], str]], folder: Path
) -> None:
    ran(a=PASSES, b=PASSES)
    assert not folder.exists()
    assert ran("--lf", a=PASSES, b=PASSES) == (
        ["a", "b"],
        "--last-failed: no case failed the last time: runs all",
    )


def test_a_run_of_others_forgets_none(ran: Callable[..., tuple[list[str], str]]) -> None:
    cases = {"a": PASSES, "b": BREAKS, "c": BREAKS}
    ran(**cases)
    ran("-k", "::c", **{**cases, "c": PASSES})
    assert ran("--lf", **cases)[0] == ["b"]
    assert ran("--lf", "-k", "::a", **cases) == (
        ["a"],
        "--last-failed: no case that failed the last time is among these: runs all",
    )


def test_a_case_is_remembered_by_its_deployment(ran: Callable[..., tuple[list[str], str]]) -> None:
    ran("--topology", "replicaset", a=BREAKS)
    names, said = ran("--topology", "single", "--lf", a=BREAKS)
    assert (names, "is among these" in said) == (["a"], True)
