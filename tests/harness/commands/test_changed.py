"""`pushbackd conform --changed`: the scenarios that differ in git."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result
    from scenario_files import WriteScenario

WHO = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *WHO, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, write_scenario: WriteScenario, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a repository with the scenarios `old` and `older`, in two commits."""
    git(tmp_path, "init", "-q")
    for name in ("older", "old"):
        write_scenario(name, name=name)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ran(pushbackd: Callable[..., Result]) -> Callable[..., list[str]]:
    """Return a function that returns the files whose cases a command line runs."""

    def run(*arguments: object) -> list[str]:
        done = pushbackd("conform", "--jobs", 1, "-v", *arguments)
        assert done.exit_code == 0, done.output
        return [name for name in ("older", "old", "new") if f"spec/{name}::" in done.stdout]

    return run


def test_files_that_differ_from_the_last_commit_run(
    repository: Path, write_scenario: WriteScenario, ran: Callable[..., list[str]]
) -> None:
    write_scenario("old", "another", name="old")
    assert ran("--changed") == ["old"]
    git(repository, "add", ".")
    assert ran("--changed") == ["old"]
    write_scenario("new", name="new")
    assert ran("--changed") == ["old", "new"]


@pytest.mark.usefixtures("repository")
def test_a_commit_may_be_named(write_scenario: WriteScenario, ran: Callable[..., list[str]]) -> None:
    write_scenario("new", name="new")
    assert ran("--changed=HEAD~1") == ["old", "new"]


def test_paths_choose_among_them(
    repository: Path, write_scenario: WriteScenario, ran: Callable[..., list[str]]
) -> None:
    write_scenario("older", "another", name="older")
    new = write_scenario("new", name="new")
    assert ran("--changed", new) == ["new"]
    assert ran("--changed", repository / "spec") == ["older", "new"]


def test_a_file_of_the_same_name_further_down_is_another_one(
    write_scenario: WriteScenario, pushbackd: Callable[..., Result], repository: Path
) -> None:
    new = write_scenario("new", name="new")
    write_scenario("below", name="new", spec="spec/below")
    done = pushbackd("conform", "--jobs", 1, "-v", "--changed", new.relative_to(repository))
    assert "spec/new::" in done.stdout
    assert "below/new::" not in done.stdout


def test_what_is_ignored_or_no_scenario_or_gone_does_not_run(
    repository: Path, write_scenario: WriteScenario, ran: Callable[..., list[str]]
) -> None:
    (repository / ".gitignore").write_text("new.yml\n")
    (repository / "settings.yml").write_text("a: 1\n")
    write_scenario("new", name="new")
    (repository / "spec" / "old.yml").unlink()
    assert ran("--changed") == []


@pytest.mark.usefixtures("repository")
def test_where_nothing_differs_that_is_said_and_no_failure(pushbackd: Any) -> None:
    done = pushbackd("conform", "--changed")
    assert (done.exit_code, done.stderr) == (0, "no scenario differs from HEAD\n")


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("base", ["nowhere", "--output=file", ""])
def test_a_commit_that_is_not_there_is_an_error_in_one_line(pushbackd: Any, base: str) -> None:
    done = pushbackd("conform", f"--changed={base}")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)


def test_so_is_a_folder_outside_of_a_repository(
    tmp_path: Path, pushbackd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    done = pushbackd("conform", "--changed")
    assert (done.exit_code, done.stderr) == (2, f"Error: --changed: {tmp_path} is in no git repository\n")


def test_and_a_machine_without_git(pushbackd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = pushbackd("conform", "--changed")
    assert (done.exit_code, done.stderr) == (2, "Error: --changed needs git, which is not installed\n")


def test_it_does_not_go_with_watching(pushbackd: Any) -> None:
    assert pushbackd("conform", "--changed", "--watch").exit_code == 2
