"""`check-adapter` says what of the protocol holds, line by line, and the skeletons of `new` keep it."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from harness.adapters.base import AdapterLost
from harness.adapters.child import Child
from harness.adapters.lines import Answer, message
from harness.authoring.skeletons import PROGRAMS, SKELETONS, files_of
from harness.planning.result import ExitCode
from harness.testing.program import Program
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INTERPRETERS = {"python": sys.executable, "node": shutil.which("node")}
SKELETON = files_of("protocol")["adapter.py"]


def command_of(kind: str, folder: Path) -> str:
    """Return the command line of a skeleton in a folder."""
    interpreter, program = PROGRAMS[kind]
    found = INTERPRETERS[interpreter]
    if found is None:
        pytest.skip(f"{interpreter} is not installed")
    return f"cmd:{shlex.join([found, str(folder / program)])}"


@pytest.fixture
def check(tmp_path: Path, pushbackd: Any) -> Callable[..., Any]:
    """Return a function that checks the bare skeleton after some changes to its text."""

    def run(changes: dict[str, str]) -> Any:
        text = SKELETON
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "adapter.py").write_text(text)
        return pushbackd("check-adapter", command_of("protocol", tmp_path))

    return run


def lines_of(output: str, status: str) -> list[str]:
    """Return the parts of the protocol that have a status."""
    return [line[14:].partition(":")[0] for line in output.splitlines() if line.startswith(f"{status} ")]


def test_only_asyncio_asks_for_the_exit_code_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks first takes the code from it: it prints "Unknown child process", and says 255."""
    asked: list[int] = []

    def poll(process: subprocess.Popen[bytes]) -> None:
        asked.append(process.pid)

    async def main() -> str:
        sleeper = shlex.join([sys.executable, "-c", "import time; time.sleep(60)"])
        program = await Program.start(sleeper, SystemClock())
        with monkeypatch.context() as patched:
            patched.setattr(subprocess.Popen, "poll", poll)
            await program.aclose()
            with pytest.raises(AdapterLost):
                await Child.start(sleeper, within=0.1)
        return program.end

    assert asyncio.run(main()) == "the program ended with signal 9"
    assert asked == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", SKELETONS)
def test_a_skeleton_keeps_the_protocol_as_it_is(kind: str, tmp_path: Path, pushbackd: Any) -> None:
    made = pushbackd("new", "--adapter", kind, tmp_path / "mine")
    assert made.exit_code == ExitCode.PASSED, made.output
    assert made.stdout.split() == [str(tmp_path / "mine" / name) for name in SKELETONS[kind]]
    done = pushbackd("check-adapter", command_of(kind, tmp_path / "mine"))
    assert done.exit_code == ExitCode.PASSED, done.output
    assert lines_of(done.stdout, "FAILED") == []
    assert {"hello", "create a collection", "unknown operation", "close", "exit"} <= set(
        lines_of(done.stdout, "ok")
    )
    assert {"call insertOne", "events come before the answer", "POOL_EVENTS"} <= set(
        lines_of(done.stdout, "not declared")
    )


WRONG = {
    "hello": {'"protocol": 1': '"protocol": 2'},
    "unknown method": {'raise Unsupported("no such method")': 'return {"result": None}'},
}
"""For some parts of the protocol, a change to the skeleton that breaks it; `test_broken_protocol` has all."""


@pytest.mark.slow
@pytest.mark.parametrize("part", WRONG)
def test_what_does_not_hold_is_named_with_what_was_expected_and_what_came(
    part: str, check: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.testing.adapter_protocol._CALL_SECONDS", 1.0)
    monkeypatch.setattr("harness.testing.adapter_protocol.CLOSE_SECONDS", 1.0)
    done = check(WRONG[part])
    assert done.exit_code == ExitCode.FAILED, done.output
    assert part in lines_of(done.stdout, "FAILED"), done.stdout
    told = done.stdout.splitlines()
    at = next(index for index, line in enumerate(told) if line == f"FAILED        {part}")
    assert [line.split()[0] for line in told[at + 1 : at + 3]] == ["expected", "got"]
    assert all(len(line.split()) > 1 for line in told[at + 1 : at + 3])


@pytest.mark.slow
def test_a_contract_that_is_broken_shows_both_sides_of_what_was_compared(
    tmp_path: Path, pushbackd: Any
) -> None:
    (tmp_path / "adapter.py").write_text(
        files_of("python")["adapter.py"]
        .replace(
            "features: frozenset[Feature] = frozenset()", "features = frozenset({Feature.COMMAND_EVENTS})"
        )
        .replace('        raise UnsupportedOperation(f"no {operation} on a {kind}")', "        return []")
    )
    done = pushbackd("check-adapter", command_of("python", tmp_path))
    assert done.exit_code == ExitCode.FAILED
    assert "FAILED        what the driver does not have is refused with a reason\n" in done.stdout
    assert "got       UnsupportedOperation was not raised" in done.stdout


def test_a_program_that_cannot_be_started_is_bad_input(tmp_path: Path, pushbackd: Any) -> None:
    done = pushbackd("check-adapter", f"cmd:{tmp_path / 'nothing'}")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert done.stderr.startswith("Error: the adapter cannot be started: ")
    assert str(tmp_path / "nothing") in done.stderr


@pytest.mark.parametrize("adapter", ["cmd:", "python adapter.py"])
def test_what_is_no_command_line_is_refused(adapter: str, pushbackd: Any) -> None:
    done = pushbackd("check-adapter", adapter)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "write cmd: and the command line of a program" in done.stderr


def test_the_session_beside_the_bare_skeleton_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    session = files_of("protocol")["session.txt"].splitlines()
    module: dict[str, Any] = {"__name__": "skeleton"}
    exec(compile(SKELETON, "adapter.py", "exec"), module)
    said: list[str] = []
    output = type("Output", (), {"write": said.append, "flush": lambda: None})
    monkeypatch.setattr(module["sys"], "stdout", output)
    monkeypatch.setattr(module["sys"], "stdin", [line[2:] for line in session if line.startswith("→")])
    module["main"]()
    monkeypatch.undo()
    assert [json.loads(line) for line in said] == [
        json.loads(line[2:]) for line in session if line.startswith("←")
    ]
    assert all(isinstance(message(line.encode()), Answer) for line in said)


class TestNewAdapter:
    def test_files_that_exist_are_kept_unless_force_is_given(self, tmp_path: Path, pushbackd: Any) -> None:
        (tmp_path / "adapter.py").write_text("mine")
        kept = pushbackd("new", "--adapter", "python", tmp_path)
        assert kept.exit_code == ExitCode.BAD_INPUT
        assert f"{tmp_path / 'adapter.py'} exists; --force overwrites it" in kept.stderr
        assert (tmp_path / "adapter.py").read_text() == "mine"
        assert pushbackd("new", "--adapter", "python", tmp_path, "--force").exit_code == ExitCode.PASSED
        assert (tmp_path / "adapter.py").read_text() == files_of("python")["adapter.py"]

    def test_it_goes_into_a_folder_only(self, tmp_path: Path, pushbackd: Any) -> None:
        (tmp_path / "file").write_text("x")
        done = pushbackd("new", "--adapter", "node", tmp_path / "file")
        assert done.exit_code == ExitCode.BAD_INPUT
        assert "is no folder" in done.stderr

    def test_a_schema_is_for_scenarios(self, tmp_path: Path, pushbackd: Any) -> None:
        done = pushbackd("new", "--adapter", "node", "--schema", "x", tmp_path)
        assert done.exit_code == ExitCode.BAD_INPUT
        assert list(tmp_path.iterdir()) == []
