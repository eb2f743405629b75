"""The options of `pushbackd conform` that choose cases: by words, by what has changed, by what failed.

Four filters follow each other: paths and `--changed` choose files (`files_of`), names behind `::` choose
cases (`cases_of`), `-k` chooses by ids while the plan is made (`is_selected`), and `--last-failed` chooses
among the items of the plan. Only the last knows of drivers and deployments, as a case fails with one of them.
"""

from __future__ import annotations

import subprocess
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from harness.planning import keywords
from harness.planning.discovery import BadInputError, discover, is_scenario
from harness.planning.last_failed import last_failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.commands.options.common import Options
    from harness.formats.case import AnyCase
    from harness.planning.plan import Item, Load


# The scenario files that have changed, as git tells.


# For git, which may have to look through a large working tree on a slow disk.
_SECONDS: Final = 60


def changed(paths: Sequence[Path], base: str) -> tuple[Path, ...]:
    """Return the scenario files among `paths`, or below them, that differ from the commit `base`.

    New files count that git does not track and does not ignore. Without paths, the current folder is
    searched. Raises `BadInputError` outside of a repository, and for a commit that is not there.
    """
    found: dict[Path, None] = {}
    for path in paths or (Path(),):
        if not path.exists():
            raise BadInputError(f"{path}: no such file or folder")
        folder = path if path.is_dir() else path.parent
        for each in _differing(folder, base):
            if (path.is_dir() or each == path) and is_scenario(each):
                found[each] = None
    return tuple(sorted(found))


def _differing(folder: Path, base: str) -> Iterator[Path]:
    """Yield the files below a folder that differ, and exist."""
    if base.startswith("-") or not base:
        raise BadInputError(f"--changed: '{base}' is no commit")
    commands = (
        # `-z`: names may hold line ends and characters that git would quote. `d`: files that were deleted
        # cannot run.
        ("diff", "--name-only", "-z", "--relative", "--diff-filter=d", base, "--"),
        ("ls-files", "--others", "--exclude-standard", "-z"),
    )
    for command in commands:
        for name in _git(folder, *command).split("\0"):
            if name and (folder / name).is_file():
                yield folder / name


def _git(folder: Path, *command: str) -> str:
    """Return what git prints in a folder."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the commit is no option
            ("git", "-C", str(folder), *command),  # noqa: S607 - the user's git
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
    except FileNotFoundError:
        raise BadInputError("--changed needs git, which is not installed") from None
    except subprocess.TimeoutExpired:
        raise BadInputError(f"--changed: git took longer than {_SECONDS} seconds") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0].removeprefix("fatal: ")
        if "not a git repository" in said.lower():
            said = f"{folder.absolute()} is in no git repository"
        raise BadInputError(f"--changed: {said or 'git failed'}")
    # Names are bytes, and need not be text.
    return done.stdout.decode(errors="surrogateescape")


F = TypeVar("F", bound="Callable[..., Any]")

_CHANGED: Final = "--changed"
_HEAD: Final = "HEAD"

_OPTIONS: Final = (
    click.option(
        "-k",
        "keyword",
        metavar="EXPR",
        help="Run only cases whose ids match, as in pytest: 'insert and not bulk'.",
    ),
    click.option(
        _CHANGED,
        metavar="[=REF]",
        help="Run only files that differ in git from HEAD, or from this commit, new ones included; without"
        " a PATH, those below the current folder. The exit code is 0 when none does.",
    ),
    click.option(
        "--last-failed",
        "--lf",
        is_flag=True,
        help="Run only cases that failed the last time that they ran, as remembered in .pushbackd_cache; all"
        " if none did.",
    ),
)


class SelectingCommand(click.Command):
    """A command whose option `--changed` has a value only where one follows it after an equals sign."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give the bare option its value: click would take the next word, which is a path."""
        return super().parse_args(ctx, [f"{each}={_HEAD}" if each == _CHANGED else each for each in args])


def selecting_options(command: F) -> F:
    """Give a click command these options."""
    return reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)


def files_of(options: Options) -> Sequence[Path]:
    """Return the scenario files of a command line. Raises `BadInputError`."""
    if options.changed is None:
        return discover(options.paths)

    return changed(options.paths, options.changed)


def cases_of(options: Options, scenarios: Load) -> tuple[AnyCase, ...]:
    """Return the cases of scenarios that a command line names."""
    return tuple(
        case for case in scenarios.cases if case.id in options.cases.get(case.path, frozenset({case.id}))
    )


def is_selected(expression: str | None) -> Callable[[str], bool]:
    """Return the predicate of `-k`, which takes a case's id."""
    if expression is None:
        return lambda _: True
    try:
        return keywords.parse(expression)
    except keywords.KeywordError as error:
        raise click.UsageError(f"-k: {error}") from error


def among_last_failed(items: Sequence[Item], options: Options) -> tuple[Item, ...]:
    """Return the items of a plan that the command line wants, and say which."""
    if not options.last_failed:
        return tuple(items)

    chosen, sentence = last_failed(items)
    click.echo(f"--last-failed: {sentence}", err=True)
    return chosen
