"""The doors to a deployment that runs, each for the spelling that the table of `wishes` has."""

from __future__ import annotations

import json
import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from asking import HttpDoor
from click.testing import CliRunner
from controlled import controlled

from fakeserver import rules
from harness.cli import cli
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fakeserver import BackgroundCluster

    Say = Callable[[str], Any]

NAMES: Final = {name: getattr(rules, name) for name in rules.__all__}


@dataclass(frozen=True)
class Running:
    """A deployment that runs, and the folder of its registry."""

    server: BackgroundCluster
    home: Path


@contextmanager
def running_in(home: Path) -> Iterator[Running]:
    """Run a replica set of three that is in the registry of a folder."""
    with controlled(home) as (server, _):
        yield Running(server, home)


@contextmanager
def in_python(running: Running) -> Iterator[Say]:
    names = {**NAMES, "control": running.server.control}
    yield lambda text: eval(text, {"__builtins__": {}}, names)


@contextmanager
def over_http(running: Running) -> Iterator[Say]:
    served = running.server.serve_ui()

    def ask(text: str) -> Any:
        method, path, body = text.split(" ", 2)
        answer = HttpDoor(served).ask(method, path, body.encode(), {})
        assert answer.status == 200, answer.text
        return answer.document

    yield ask
    running.server.run(served.aclose)


@contextmanager
def in_the_shell(running: Running) -> Iterator[Say]:
    runner = CliRunner(env={"PUSHBACKD_HOME": str(running.home)})

    def run(text: str) -> Any:
        program, *words = shlex.split(text)
        assert program == "pushbackd"
        done = runner.invoke(cli, [*words, "--json"])
        assert done.exit_code == ExitCode.PASSED, done.output
        return json.loads(done.stdout)

    yield run


DOORS = {"shell": in_the_shell, "Python": in_python, "HTTP": over_http}
"""The ways to say a spelling to a deployment that runs."""
