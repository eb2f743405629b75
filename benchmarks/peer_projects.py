"""Servers of other projects that speak MongoDB's wire protocol, each in an environment of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import venv
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.raw_client import RawClient
from benchmarks.server_cpu import Contestant, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAIN: Final = Path(__file__).with_name("peer_main.py")
_INSTALL_SECONDS: Final = 300
_START_SECONDS: Final = 30
_LOOK_AGAIN_SECONDS: Final = 0.05
_REASON_CHARACTERS: Final = 120


class Project(NamedTuple):
    """A project on PyPI; `peer_main.py` starts its server by its name."""

    name: str
    version: str

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f"{self.name}=={self.version}"


PROJECTS: Final = (
    Project("SecantusDB", "0.7.0b3"),
    Project("nx-27017", "0.8.1"),
)


class UnavailableError(Exception):
    """A project's server cannot be had here; the text says why."""


def _environment(project: Project, folder: Path) -> Path:
    """Return the interpreter of the project's environment, which is made first. Raises `UnavailableError`."""
    home = folder / f"{project.name}-{project.version}"
    python = home / "bin" / "python"
    if (home / "complete").exists():
        return python
    print(f"installing {project.requirement}", file=sys.stderr)
    venv.create(home, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", project.requirement]
    try:
        done = subprocess.run(  # noqa: S603 - pip, with a requirement from above
            command, capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"pip took more than {_INSTALL_SECONDS} seconds") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise UnavailableError((errors or ["pip fails"])[-1][:_REASON_CHARACTERS])
    (home / "complete").touch()
    return python


@dataclass(frozen=True, slots=True)
class _Lines:
    """The way to a server's process, over its standard input and output."""

    process: subprocess.Popen[str]

    def send(self, obj: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{obj}\n")
        self.process.stdin.flush()

    def recv(self) -> Usage:
        assert self.process.stdout is not None
        return Usage(*json.loads(self.process.stdout.readline()))


@contextmanager
def peer(project: Project, folder: Path, connections: int) -> Iterator[Contestant]:
    """Start a project's server in a process of its own, connect, and end both. Raises `UnavailableError`."""
    python = _environment(project, folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address: tuple[str, int] = free.getsockname()
    with subprocess.Popen(  # noqa: S603 - an environment made above
        [str(python), str(_MAIN), project.name, str(address[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            client = _connect(process, address, connections)
            try:
                yield Contestant(project.name, _Lines(process), client)
            finally:
                client.close()
        finally:
            process.kill()


def _connect(process: subprocess.Popen[str], address: tuple[str, int], connections: int) -> RawClient:
    until = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with suppress(OSError):
            return RawClient(address, connections)
        time.sleep(_LOOK_AGAIN_SECONDS)
    raise UnavailableError("its server does not start")
