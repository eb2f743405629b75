"""Cases on the command line: `FILE::CASE`, by paths or by the names that reports print.

A report prints `retryable-writes/batches::a batch is sent again`, and that text is what a user has at hand:
as a short name it is looked up among bundled scenarios and among files in which cases failed. After `::`
stands a description or a part of one, which must mean exactly one case. A file that is named twice, once as a
whole, runs as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from harness.commands.options.types import FilePath
from harness.commands.output import bad_input
from harness.explaining.text import shown
from harness.planning.discovery import BadInputError, named
from harness.planning.last_failed import failed_cases
from harness.planning.plan import loaded
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from harness.formats.case import AnyCase

_SEPARATOR: Final = "::"


class ScenarioName(FilePath):
    """A path, or a short name of scenarios; a case may follow after `::`."""

    name = "PATH[::CASE]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text: a path would lose slashes of a description."""
        super().convert(value, param, ctx)
        return str(value)


def paths_and_cases(texts: Iterable[str]) -> tuple[tuple[Path, ...], dict[Path, frozenset[str]]]:
    """Return what texts name, each a path or `FILE::CASE`, and of some files the ids of the cases meant.

    Raises `ClickException` for a name that is nowhere, and for a case that is none or several.
    """
    paths: dict[Path, None] = {}
    whole: set[Path] = set()
    cases: dict[Path, set[str]] = {}
    for text in texts:
        # The first separator: a description may hold another one, and a path does not.
        name, separator, wanted = text.partition(_SEPARATOR)
        found = _files(name)
        paths |= dict.fromkeys(found)
        if separator:
            case = _one(name, wanted, [each for path in found for each in _cases_of(path)])
            cases.setdefault(case.path, set()).add(case.id)
        else:
            whole |= {*found}
    meant = {path: frozenset(ids) for path, ids in cases.items() if path not in whole}
    return tuple(path for path in paths if path in whole or path in meant), meant


def case_named(text: str) -> AnyCase:
    """Return the case that a text names. Raises `ClickException` for none, or for several."""
    name, _, wanted = text.partition(_SEPARATOR)
    return _one(name, wanted, [each for path in _files(name) for each in _cases_of(path)])


def _files(name: str) -> tuple[Path, ...]:
    with bad_input(BadInputError):
        return named(name, (case.path for case in failed_cases()))


def _cases_of(path: Path) -> Sequence[AnyCase]:
    if not path.is_file():
        raise click.ClickException(f"{path}: is a folder; a case is named FILE::CASE")
    with bad_input(ScenarioError):
        return loaded(str(path)).cases


def _one(name: str, wanted: str, cases: Sequence[AnyCase]) -> AnyCase:
    # A whole description wins over parts of it: one description may be the beginning of another.
    exact = [case for case in cases if wanted in (case.description, case.id.partition(_SEPARATOR)[2])]
    found = exact or [case for case in cases if wanted.lower() in case.description.lower()]
    if len(found) == 1:
        return found[0]
    several = f"'{wanted}' may mean {len(found)} cases" if wanted else f"it has {len(found)} cases"
    several = several if found else f"no case is called '{wanted}'"
    listed = "\n".join(f"  {shown(str(case.path))}{_SEPARATOR}{case.description}" for case in found or cases)
    raise click.ClickException(f"{name}: {several}; choose one of\n{listed}")
