"""Servers in the background: each is `pushbackd serve` in a process of its own, and ended by its control.

A server that is started here outlives whoever started it; the registry (`fakeserver.control.registry`) knows
how to reach it. One that fails to start leaves nothing behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import harness
from fakeserver.control.client import ControlClient, NoAnswerError, ServerStatus
from fakeserver.control.registry import HOME_VARIABLE
from harness.world import interruption
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.control.registry import Registry, RegistryEntry


START_SECONDS: Final = 60.0
_END_SECONDS: Final = 10.0
_TOLD_LINES: Final = 5
_PRIVATE_FILE: Final = 0o600


class LaunchError(Exception):
    """A server did not start; the message says why, as the server told it."""


def launch(
    arguments: Sequence[str],
    name: str,
    registry: Registry,
    *,
    log: Path | None = None,
    timeout: float = START_SECONDS,
) -> tuple[RegistryEntry, subprocess.Popen[bytes]]:
    """Start a server with these arguments of `serve`, and return it when clients can write.

    Raises `LaunchError`, `OSError`.
    """
    # The entry and the log of a server that runs are its own.
    taken = registry.read(name)
    if taken is not None and ControlClient(taken).status() is not ServerStatus.ENDED:
        raise LaunchError(f"--id {name}: a server of this id runs; `pushbackd stop {name}` ends it")
    registry.prepare()
    path = registry.log_file(name) if log is None else log
    path.parent.mkdir(parents=True, exist_ok=True)
    # -P: a folder of the user's that is called like a package of ours must not take its place.
    command = [sys.executable, "-P", "-m", "harness", "serve", *arguments, "--id", name]
    command += ["--logpath", str(path), "--logappend"]
    if "--logappend" not in arguments:
        path.unlink(missing_ok=True)
    path.touch(mode=_PRIVATE_FILE)  # a log tells what a test sends
    with path.open("ab") as told:  # the server appends to it, too
        # With the registry, and with the packages that run here.
        ours = str(Path(harness.__file__).parents[1])
        packages = os.pathsep.join(filter(None, (ours, os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(  # noqa: S603 - this program itself
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=told,
            env={**os.environ, HOME_VARIABLE: str(registry.folder), "PYTHONPATH": packages},
            start_new_session=True,
        )
    try:
        entry = _ready(process, path, registry, name, timeout)
    except BaseException:
        process.kill()
        process.wait()
        _clean_up(name, registry, process.pid)
        path.unlink(missing_ok=True)
        raise
    return entry, process


@contextmanager
def launched(
    arguments: Sequence[str], name: str, registry: Registry, *, log: Path | None = None
) -> Iterator[RegistryEntry]:
    """Run a server while the block runs. Raises `LaunchError`, `OSError`."""
    entry, process = launch(arguments, name, registry, log=log)
    try:
        yield entry
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _clean_up(name, registry, process.pid)


def end(entry: RegistryEntry, registry: Registry) -> ServerStatus:
    """End a server, and remove what it left; return the state that it was in.

    Raises `ControlError` where something answers that is not this server, or nothing does in time: what has
    its process id is left alone.
    """
    client = ControlClient(entry)
    status = client.status()
    if status is ServerStatus.NOT_ANSWERING:
        raise ControlError(
            f"{entry.id} does not answer on {entry.control}; if process {entry.pid} is this server, end it"
        )
    if status is ServerStatus.RUNNING:
        try:
            client.shut_down()
        except NoAnswerError as error:
            if isinstance(error.__cause__, TimeoutError):
                raise ControlError(f"{entry.id} (process {entry.pid}) does not end") from None
    registry.discard(entry.id)
    return status


def _clean_up(name: str, registry: Registry, process: int) -> None:
    """Remove what a server left, unless another one has its id by now."""
    entry = registry.read(name)
    if entry is None or entry.pid == process:
        registry.discard(name)


def _ready(
    process: subprocess.Popen[bytes], log: Path, registry: Registry, name: str, timeout: float
) -> RegistryEntry:
    """Return the entry of a server once it is ready. Raises `LaunchError`."""
    ready = _first_line(process, timeout)
    entry = registry.read(name)
    if not ready or entry is None:
        # The last lines in the log that are no log messages: why the server ended.
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        told = [line for line in lines if not line.startswith("{") and "--help" not in line]
        raise LaunchError(
            "\n".join(told[-_TOLD_LINES:]).removeprefix("Error: ") or "the server ended, and said nothing"
        )
    return entry


def _first_line(process: subprocess.Popen[bytes], timeout: float) -> bytes:
    """Return the first line of standard output. Raises `LaunchError` when none comes in time."""
    lines: list[bytes] = []
    assert process.stdout is not None
    output = process.stdout

    def read() -> None:
        lines.append(output.readline())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(timeout)
    if not lines:
        process.kill()
        reader.join()
        output.close()
        raise LaunchError(f"the server was not ready after {timeout:g} seconds")
    output.close()
    return lines[0]


# A program of the user's, run to its end: signals go on to it, and its exit code is what shells say.


def run_program(program: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program, and return its exit code; of one that a signal ended, what shells say.

    Raises `OSError` where it cannot start.
    """
    process = subprocess.Popen(program, env=environment)  # noqa: S603 - the user's own command
    while True:
        try:
            code = process.wait()
        except interruption.Interrupted as signalled:
            process.send_signal(signalled.number)
            interruption.forget()
        else:
            return code if code >= 0 else 128 - code
