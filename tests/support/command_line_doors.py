"""Two doors to a deployment in this process: its control listener, and the command line."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner
from controlled import registered

from fakeserver.control.client import ControlClient
from fakeserver.control.verbs.form import kebab
from fakeserver.control.verbs.table import VERBS
from harness.cli import cli
from harness.planning.result import ExitCode
from mongowire.documents.arguments import Kind
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeserver.assembly.background import BackgroundCluster
    from mongowire.documents.arguments import Argument


@contextmanager
def listener_of(server: BackgroundCluster) -> Iterator[Callable[[str, Mapping[str, Any]], dict[str, Any]]]:
    """Ask the control listener, over a Unix socket."""
    with tempfile.TemporaryDirectory() as home, registered(server, Path(home)) as entry:
        yield ControlClient(entry).perform


@contextmanager
def command_line_of(
    server: BackgroundCluster,
) -> Iterator[Callable[[str, Mapping[str, Any]], dict[str, Any]]]:
    """Run `pushbackd …`; what no command line can say, is asked of the control listener."""
    with tempfile.TemporaryDirectory() as home, registered(server, Path(home)) as entry:
        runner = CliRunner(env={"PUSHBACKD_HOME": home, "PUSHBACKD_ID": entry.id})

        def perform(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            words = words_of(name, arguments)
            if words is None:
                return ControlClient(entry).perform(name, arguments)
            done = runner.invoke(cli, words)
            if done.exit_code in {ExitCode.BAD_INPUT, ExitCode.FAILED}:
                first = done.stderr.splitlines()[0].removeprefix("Error: ")
                raise ControlError(_as_in_the_table(first, name))
            assert done.exit_code == ExitCode.PASSED, done.output
            return dict(json.loads(done.stdout))

        yield perform


def words_of(name: str, arguments: Mapping[str, Any]) -> list[str] | None:
    """Return a verb as words of the command line; None for what these cannot say."""
    verb = next((each for each in VERBS if each.name == name), None)
    declared = () if verb is None else verb.arguments
    needed = {each.name for each in declared if each.is_required}
    if verb is None or not needed <= {*arguments} <= {each.name for each in declared}:
        return None
    positional: list[str] = []
    options: list[str] = []
    for each in declared:
        if each.name in arguments:
            value = arguments[each.name]
            if value == [] or (each.kind is Kind.FLAG and value is not True):
                return None
            if each.is_required or (each is declared[0] and each.name == "node"):
                positional += _words(each, value)
            else:
                options.append(f"--{kebab(each.name)}" + ("" if value is True else f"={_text(value)}"))
    return [*verb.command.split(" "), *options, "--json", "--", *positional]


def _words(argument: Argument, value: Any) -> list[str]:
    if argument.kind is Kind.GROUPS and isinstance(value, list):
        return [",".join(group) if isinstance(group, list) else str(group) for group in value]
    return [_text(value)]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return json.dumps(value)


def _as_in_the_table(message: str, name: str) -> str:
    """Return an error with the name of its argument as the table has it."""
    for each in VERBS[name].arguments:
        for spelling in (f"--{kebab(each.name)}", kebab(each.name).upper()):
            if message.startswith((f"{spelling}:", f"{spelling}.", f"{spelling}[")):
                return each.name + message.removeprefix(spelling)
    return message
