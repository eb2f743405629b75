"""The options of `pushbackd conform` that choose cases: by words, by what has changed, by what failed."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from harness.commands.options.changed import changed
from harness.running import keywords
from harness.running.discovery import discover
from harness.running.last_failed import last_failed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from harness.commands.options.common import Options
    from harness.formats.reading import AnyCase
    from harness.running.plan import Item, Load

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
