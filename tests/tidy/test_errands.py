"""The errands of CONTRIBUTING.md: one search finds all that a change touches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("### Ten errands")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (.+?) \| `(.+)` \| (.+) \|$", SECTION, re.MULTILINE)
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for package in ("mongowire", "fakeserver", "driver", "harness")
    for path in (ROOT / package).rglob("*.py")
}


def test_there_are_ten_errands() -> None:
    assert len({errand for errand, _, _ in ROWS}) == 10


@pytest.mark.parametrize(("pattern", "files"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_one_search_finds_the_files_that_an_errand_touches(pattern: str, files: str) -> None:
    search = re.compile(pattern.replace(r"\|", "|"), re.MULTILINE)
    found = {path for path, text in SOURCES.items() if search.search(text)}
    assert found == set(re.findall(r"\]\((.+?)\)", files))
