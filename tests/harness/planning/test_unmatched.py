"""An entry of a user's expectations file that speaks of nothing is an error, whatever the run leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from scenario_files import scenario_text

from harness.cli import cli
from harness.planning.discovery import bundled_root
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a folder of suites with the files `crud/insert`, `crud/find` and `reads/find`."""
    for name in ("crud/tests/unified/insert", "crud/tests/unified/find", "reads/find"):
        path = tmp_path / "source" / f"{name}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(scenario_text("one", "two"))
    return tmp_path / "source"


def conform(suite: Path, pattern: str, *arguments: str | Path) -> tuple[int, str]:
    book = suite / "known.yml"
    book.write_text(f'skip:\n  - case: "{pattern}"\n    reason: NODE-1\n')
    done = CliRunner().invoke(
        cli, ["conform", *map(str, arguments), "--expectations", str(book), "--time", "virtual"]
    )
    return done.exit_code, done.output


WRONG = [
    ("crud/insert::three", "'crud/insert' has no such case"),
    ("crud/find::three", "'crud/find' has no such case"),
    ("crud/delete::one", "there is no file 'crud/delete'"),
    ("crud/del*::one", "there is no file 'crud/del*'"),
    ("writes/find::one", "there is no folder 'writes'"),
    ("writ*/find::one", "there is no folder 'writ*'"),
    ("retryable-writes/no-such-file::one", "there is no file 'retryable-writes/no-such-file'"),
]


@pytest.mark.parametrize(("pattern", "why"), WRONG)
@pytest.mark.parametrize(
    "arguments",
    [["crud"], ["crud", "reads"], ["crud", "-k", "two"], ["crud/tests/unified/insert.yml", "reads/find.yml"]],
    ids=" ".join,
)
def test_an_entry_for_what_is_not_there_is_an_error(
    suite: Path, pattern: str, why: str, arguments: list[str]
) -> None:
    paths = [suite / each if "/" in each or (suite / each).exists() else each for each in arguments]
    code, output = conform(suite, pattern, *paths)
    assert code == ExitCode.BAD_INPUT
    assert f"known.yml:2: no case matches '{pattern}': {why}: delete the entry or mend it" in output


@pytest.mark.parametrize(
    "pattern",
    [
        "crud/insert::one",
        "crud/find::*",
        "reads/find::two",
        "*/find::one",
        "*::two",
        "retryable-writes/labels::*",
    ],
)
def test_an_entry_for_what_the_run_leaves_out_is_none(suite: Path, pattern: str) -> None:
    code, output = conform(suite, pattern, suite / "crud/tests/unified/insert.yml", "-k", "one")
    assert code in (ExitCode.PASSED, ExitCode.NOTHING_RAN), output


def test_a_file_that_cannot_be_read_may_have_the_case(suite: Path) -> None:
    (suite / "crud/tests/unified/find.yml").write_text('description: x\nschemaVersion: "1.0"\ntests: 1\n')
    code, output = conform(suite, "crud/find::three", suite / "crud/tests/unified/insert.yml")
    assert code == ExitCode.PASSED, output


def test_a_bundled_file_may_speak_of_public_scenarios(suite: Path) -> None:
    book = bundled_root() / "expectations" / "reference.yml"
    done = CliRunner().invoke(cli, ["conform", str(suite / "crud"), "--expectations", str(book)])
    assert done.exit_code == ExitCode.PASSED, done.output
