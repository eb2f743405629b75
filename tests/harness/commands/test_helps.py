"""Every help text of every command, held to the same rules."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from rows import each_row

from harness.cli import cli
from harness.commands.options.types import Duration, Word
from harness.commands.subcommands import FORMER_VERBS, GROUPS, SUBCOMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def walk(
    command: click.Command, words: tuple[str, ...], parent: click.Context
) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    """Yield each command below one, itself among them, with its context."""
    context = click.Context(command, parent, words[-1])
    yield words, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walk(below, (*words, name), context)


ROOT = click.Context(cli, info_name="pushbackd", **cli.context_settings)
COMMANDS: list[tuple[tuple[str, ...], click.Context]] = []
for _name in SUBCOMMANDS:
    _command = cli.get_command(ROOT, _name)
    assert _command is not None
    COMMANDS += walk(_command, (_name,), ROOT)
OPTIONS: list[tuple[tuple[str, ...], click.Context, click.Option]] = [
    (words, context, option)
    for words, context in COMMANDS
    for option in context.command.get_params(context)
    if isinstance(option, click.Option) and not option.hidden
]


def named(row: tuple[tuple[str, ...], click.Context, *tuple[click.Parameter, ...]]) -> str:
    """Return the words that a command is called by, and its option or argument."""
    words, _, *parameters = row
    return " ".join([*words, *(each.opts[-1] for each in parameters)])


def examples(context: click.Context) -> list[list[str]]:
    """Return the words of the examples in a help text."""
    lines = context.command.get_help(context).splitlines()
    return [shlex.split(line) for line in lines if re.match(r"\s+pushbackd \S", line)]


@each_row(COMMANDS, name=named)
def test_a_help_has_an_example_that_is_a_right_command_line(
    row: tuple[tuple[str, ...], click.Context],
) -> None:
    words, context = row
    found = examples(context)
    assert found
    for name, *arguments in found:
        assert (name, *arguments[: len(words)]) == ("pushbackd", *words)
        parsed(cli, ROOT, arguments)


def parsed(command: click.Command, context: click.Context, arguments: list[str]) -> None:
    """Parse a command line as `command` does, without performing it. Raises `click.UsageError`."""
    while isinstance(command, click.Group) and arguments and command.get_command(context, arguments[0]):
        name, *arguments = arguments
        found = command.get_command(context, name)
        assert found is not None
        context, command = click.Context(found, context, name), found
    command.make_context(context.info_name, list(arguments), context.parent)


def said(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None
    return " ".join(record).strip()


@each_row(OPTIONS, name=named)
def test_an_option_says_what_it_is_and_its_default(row: tuple[Any, click.Context, click.Option]) -> None:
    _, context, option = row
    text = said(option, context)
    assert option.help
    assert not option.help[0].islower()
    default = option.get_default(context, call=False)
    if not option.is_flag and not option.count and isinstance(default, str | int | float | tuple):
        assert "[default: " in text


@each_row(OPTIONS, name=named)
def test_a_time_is_called_one_and_its_default_has_a_unit(
    row: tuple[Any, click.Context, click.Option],
) -> None:
    _, context, option = row
    if not isinstance(option.type, Duration):
        return
    assert option.make_metavar(context) == option.type.name
    default = option.get_default(context, call=False)
    assert not isinstance(default, str | float) or re.fullmatch(r"[\d.]+[a-z]+", str(default))


@each_row(COMMANDS, name=named)
def test_a_value_is_called_by_one_word_everywhere(row: tuple[Any, click.Context]) -> None:
    _, context = row
    valued = [each for each in context.command.get_params(context) if not getattr(each, "count", False)]
    metavars = {each.make_metavar(context) for each in valued}
    assert not metavars & {"INTEGER", "INTEGER RANGE", "COUNT", "FLOAT", "DIRECTORY"}


ONE_NAME = {"--page": "--html", "--json": "--results", "--first": "--exitfirst", "--version": "--profile"}
"""What stood alone somewhere, and what all commands call it."""


@each_row(OPTIONS, name=named)
def test_an_option_has_the_name_that_other_commands_have_for_it(
    row: tuple[Any, click.Context, click.Option],
) -> None:
    _, _, option = row
    if option.is_flag and "--first" not in option.opts:
        return
    assert [now for once, now in ONE_NAME.items() if once in option.opts and now not in option.opts] == []


FINITE = [
    (words, context, each)
    for words, context in COMMANDS
    for each in context.command.get_params(context)
    if isinstance(each.type, click.Choice) or (isinstance(each.type, Word) and not callable(each.type.known))
]


@each_row(FINITE, name=named)
def test_a_finite_list_is_shown_and_completed(row: tuple[Any, click.Context, click.Parameter]) -> None:
    _, context, parameter = row
    kind: Any = parameter.type
    known = list(map(str, kind.choices if isinstance(kind, click.Choice) else kind.known))
    completed = [each.value for each in kind.shell_complete(context, parameter, "")]
    assert completed == known
    if 0 < len(known) <= 8:
        help_text = "".join(context.command.get_help(context).split())
        assert [word for word in known if word.partition("+")[0] not in help_text] == []


@pytest.mark.parametrize(
    ("words", "incomplete", "among"),
    [
        (["node", "kill"], "pri", "primary"),
        (["network", "partition"], "node0,cli", "node0,clients"),
        (["fail-point", "set"], "failCo", "failCommand"),
        (["fail-point", "set", "failCommand", "--mode"], "al", "alwaysOn"),
        (["rule", "add", "--command"], "find,ins", "find,insert"),
        (["rule", "add", "--error"], "IngressRequestRate", "IngressRequestRateLimitExceeded"),
        (["rule", "add", "--per"], "op", "operation"),
        (["journal", "--outcome"], "disc", "disconnect"),
        (["limits", "shed", "2%", "--codes"], "Ingress", "IngressRequestRateLimitExceeded"),
        (["conform", "--adapter"], "pym", "pymongo-async"),
        (["start", "--topology"], "rep", "replicaset"),
        (["start", "--profile"], "8", "8.0"),
        (["drill", "--profile"], "8", "8.0"),
        (["serve", "--scenario"], "rolling", "rolling-restart"),
        (["start", "--scenario"], "retry", "retry-storm"),
        (["exec", "--scenario"], "retry", "retry-storm"),
    ],
)
def test_the_shell_completes_names(words: list[str], incomplete: str, among: str) -> None:
    complete = ShellComplete(cli, {}, "pushbackd", "_PUSHBACKD_COMPLETE")
    assert among in [each.value for each in complete.get_completions(words, incomplete)]


@pytest.mark.parametrize(
    ("words", "syntax"),
    [
        (["network", "fault"], "FAULT is the fault as JSON"),
        (["network", "partition"], "each is a group, its members parted by commas"),
        (["data", "seed"], "DOCUMENTS is a document or a list of them as JSON"),
    ],
)
def test_what_an_argument_looks_like_is_said(words: list[str], syntax: str) -> None:
    shown = CliRunner().invoke(cli, [*words, "--help"]).stdout
    assert syntax in " ".join(shown.split())


def test_every_command_stands_in_one_group_of_the_help() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(SUBCOMMANDS)
    shown = CliRunner().invoke(cli, ["--help"]).stdout
    assert [title for title in GROUPS if f"\n{title}:\n" not in shown] == []


@pytest.mark.parametrize(
    ("group", "former", "now"), [(g, f, n) for g, names in FORMER_VERBS.items() for f, n in names.items()]
)
def test_a_former_name_of_a_verb_works_with_a_notice(group: str, former: str, now: str) -> None:
    today, before = (CliRunner().invoke(cli, [group, name, "--help"]) for name in (now, former))
    assert (before.exit_code, before.stdout) == (0, today.stdout)
    assert before.stderr == f"pushbackd {group} {former} is called pushbackd {group} {now} now\n"


def test_the_shell_completes_the_snapshots_of_the_server_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUSHBACKD_HOME", str(tmp_path))
    run = CliRunner().invoke
    assert run(cli, ["start", "--id", "shop"]).exit_code == 0
    try:
        assert run(cli, ["data", "snapshot", "before"]).exit_code == 0
        complete = ShellComplete(cli, {}, "pushbackd", "_PUSHBACKD_COMPLETE")
        assert [each.value for each in complete.get_completions(["data", "restore"], "be")] == ["before"]
    finally:
        assert run(cli, ["stop", "shop"]).exit_code == 0


def test_no_color_stands_before_any_command_and_does_not_outlive_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    arguments = ["conform", "-k", "no-case-has-this-name"]
    colored = CliRunner().invoke(cli, arguments, color=True)
    plain = CliRunner().invoke(cli, ["--no-color", *arguments], color=True)
    assert "\x1b[" in colored.output
    assert "\x1b[" not in plain.output
    assert "no cases" in plain.output
    assert "NO_COLOR" not in os.environ
