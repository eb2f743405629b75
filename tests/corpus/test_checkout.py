from __future__ import annotations

from typing import TYPE_CHECKING

from corpus_checkout import find_corpus

if TYPE_CHECKING:
    from pathlib import Path


def checkout(root: Path, name: str) -> Path:
    source = root / "shared" / "corpus" / name / "source"
    (source / "unified-test-format" / "tests").mkdir(parents=True)
    return source


def test_the_newest_checkout_beside_the_project_is_found(tmp_path: Path) -> None:
    checkout(tmp_path, "seed-2026-03-05")
    newest = checkout(tmp_path, "head-2026-08-13")
    start = tmp_path / "project" / "tests" / "support"
    start.mkdir(parents=True)
    assert find_corpus(environment=None, start=start / "file.py") == newest


def test_the_environment_names_a_checkout_or_its_source(tmp_path: Path) -> None:
    source = checkout(tmp_path, "any")
    for named in (source, source.parent):
        assert find_corpus(environment=str(named), start=tmp_path) == source


def test_an_incomplete_checkout_is_none(tmp_path: Path) -> None:
    assert find_corpus(environment=str(tmp_path), start=tmp_path / "x") is None
    assert find_corpus(environment=None, start=tmp_path / "x") is None
