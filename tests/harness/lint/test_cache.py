"""Findings that are known from the last time: the same, and told only while they still hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.lint import engine
from harness.lint.cache import FindingsCache
from harness.lint.engine import ALL, lint_file, lint_files
from harness.world.cache_folder import NAME, VARIABLE, cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOUND = """\
description: x
schemaVersion: "1.0"
tests:
  - description: a
    operations:
      - name: assertCollectionNotExists
        object: testRunner
        arguments: { databaseName: shop, collectionName: stock }
"""
SUSPICIOUS = SOUND.replace('"1.0"', '"1.4"')
UNUSABLE = SOUND.replace("tests:", "test:")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that rules have looked at."""
    names: list[str] = []

    def lint(path: Path, rules: frozenset[str]) -> Any:
        names.append(path.name)
        return lint_file(path, rules)

    monkeypatch.setattr(engine, "lint_file", lint)
    return names


def found(*paths: Path, rules: frozenset[str] = ALL) -> list[str]:
    return [str(each) for each in lint_files(paths, rules, jobs=1, cache=FindingsCache(rules))]


@pytest.mark.parametrize("content", [SOUND, SUSPICIOUS, UNUSABLE])
def test_a_file_that_has_not_changed_is_not_looked_at_again(
    write: Callable[..., Path], read: list[str], content: str
) -> None:
    path = write(content)
    first = found(path)
    assert first == [str(each) for each in lint_file(path)]
    assert found(path) == first
    assert read == ["case.yml"]


def test_one_that_has_changed_is(write: Callable[..., Path], read: list[str]) -> None:
    found(write(SOUND, "a.yml"), write(SOUND, "b.yml"))
    paths = write(SUSPICIOUS, "a.yml"), write(SOUND, "b.yml")
    assert len(found(*paths)) == 1
    assert read == ["a.yml", "b.yml", "a.yml"]


def test_a_changed_json_copy_counts(write: Callable[..., Path]) -> None:
    path = write(SOUND)
    write(json.dumps({"description": "x"}), "case.json")
    (drift,) = found(path)
    assert "json-drift" in drift
    (path.parent / "case.json").unlink()
    assert found(path) == []


def test_other_rules_find_anew(write: Callable[..., Path]) -> None:
    path = write(SUSPICIOUS)
    assert found(path, rules=frozenset({"unused-anchor"})) == []
    assert len(found(path)) == 1


def test_the_same_file_by_another_path_is_told_by_that(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, read: list[str]
) -> None:
    path = write(SUSPICIOUS)
    (absolute,) = found(path)
    monkeypatch.chdir(tmp_path)
    (relative,) = found(path.relative_to(tmp_path))
    assert absolute == f"{tmp_path}/{relative}"
    assert len(read) == 1


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"version": "another", "files": {}}'])
def test_a_broken_cache_is_an_empty_one(write: Callable[..., Path], folder: Path, broken: str) -> None:
    path = write(SUSPICIOUS)
    found(path)
    (folder / "lint.json").write_text(broken)
    assert len(found(path)) == 1


def test_other_rules_of_the_same_name_forget_all(
    write: Callable[..., Path], read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(SOUND)
    found(path)
    monkeypatch.setattr("harness.lint.cache._DECIDING", ("harness/lint",))
    found(path)
    assert read == ["case.yml", "case.yml"]


def test_a_folder_that_cannot_be_written_keeps_nothing(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
    assert len(found(write(SUSPICIOUS))) == 1


def test_without_cache_nothing_is_kept(write: Callable[..., Path], folder: Path, pushbackd: Any) -> None:
    path = write(SUSPICIOUS)
    assert pushbackd("lint", "--no-cache", path).exit_code == 1
    assert not folder.exists()
    assert pushbackd("lint", path).exit_code == pushbackd("lint", path).exit_code == 1
    assert (folder / ".gitignore").read_text() == "*\n"
    assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


@pytest.mark.parametrize("mark", [".git", "pyproject.toml"])
def test_the_folder_lies_at_the_root_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    monkeypatch.delenv(VARIABLE)
    (tmp_path / "project" / "below").mkdir(parents=True)
    (tmp_path / "project" / mark).touch()
    monkeypatch.chdir(tmp_path / "project" / "below")
    assert cache_folder() == tmp_path / "project" / NAME
