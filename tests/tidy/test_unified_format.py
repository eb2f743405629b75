"""docs/UNIFIED-FORMAT.md has every name of the format, its version, and tests that are there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import yaml
from format_features import features
from rows import each_row

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "UNIFIED-FORMAT.md"
TEXT = PAGE.read_text()
ROW = re.compile(r"^\| 1\.(\d+) \| (`.*`) \| (.*) \| (.*) \|$", re.MULTILINE)
NAME = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[`([^`]+)`\]\(\.\./([^)]+)\)")

ROWS = [(int(minor), NAME.findall(names), where, tests) for minor, names, where, tests in ROW.findall(TEXT)]
TESTS = sorted({link for line in TEXT.splitlines() if line.startswith("| ") for link in LINK.findall(line)})


@cache
def names_of_tests(path: Path) -> frozenset[str]:
    """Return the tests of a module, or the cases of a scenario with the file's name before them."""
    if path.suffix == ".py":
        return frozenset(re.findall(r"^\s*(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE))
    cases = yaml.safe_load(path.read_text())["tests"]
    return frozenset(f"{path.stem}::{case['description']}" for case in cases)


def test_every_name_of_the_format_is_in_one_row_with_its_version() -> None:
    listed = [(name, minor) for minor, names, _, _ in ROWS for name in names]
    assert len(listed) == len(dict(listed)), "a name stands in two rows"
    assert dict(listed) == features()


def test_every_row_says_where_it_is_done_and_what_shows_it() -> None:
    assert len(ROWS) > 150
    assert [names for _, names, where, tests in ROWS if not (LINK.search(where) and LINK.search(tests))] == []


@each_row([link for link in TESTS if link[1].startswith(("tests/", "spec_"))], name=" in ".join)
def test_every_test_that_is_named_is_there(link: tuple[str, str]) -> None:
    name, path = link
    assert name in names_of_tests(ROOT / path)


def test_every_own_scenario_of_the_format_shows_something() -> None:
    ours = (ROOT / "spec_tests" / "unified-test-format").glob("*.yml")
    named = {path for _, path in TESTS}
    assert [path.name for path in ours if path.relative_to(ROOT).as_posix() not in named] == []


def test_the_names_are_read_out_of_the_format_s_own_tables() -> None:
    known = features()
    assert known["client.observeEvents"] == known["client.close()"] == known["$$exists"] == 0
    assert (known["topologies=load-balanced"], known["csfle.minLibmongocryptVersion"]) == (3, 25)
    assert (known["testRunner.loop()"], known["spans.nested"]) == (2, 27)
    assert "observeEvents=serverHeartbeatStartedEvent" in known
