"""`pushbackd serve --ui`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from asking import HttpDoor
from started import Started

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Logged:
    """The door that a process says it has."""

    page: str

    @property
    def url(self) -> str:
        return self.page.partition("/#")[0]

    @property
    def token(self) -> str:
        return self.page.partition("token=")[2]

    async def aclose(self) -> None:
        """It ends with its process."""


def serving(*options: str) -> list[str]:
    return [sys.executable, "-m", "harness.cli", "serve", *options]


def _until(stream: Iterable[str], start: str) -> list[str]:
    lines: list[str] = []
    for line in stream:
        lines.append(line)
        if line.startswith(start):
            break
    return lines


def test_standard_error_gets_the_address_of_the_page_and_no_log_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUSHBACKD_HOME", str(tmp_path))
    with Started(
        serving("--ui", "0"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            lines = _until(process.stderr, "live page: ")
            page = lines[-1].removeprefix("live page: ").rstrip()
            assert HttpDoor(Logged(page)).perform("state")["topology"] == "single"
            token = Logged(page).token
            logged = [line for line in lines if line.startswith("{")]
            assert any('"msg": "Live page"' in line for line in logged)
            assert not any(token in line for line in logged)
        finally:
            process.terminate()
        process.stderr.read()
        assert process.wait(30) == 0


def test_a_taken_port_is_one_line_and_the_code_of_a_mongod(
    door: HttpDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUSHBACKD_HOME", str(tmp_path))
    port = door.address.rpartition(":")[2]
    done = subprocess.run(serving("--ui", port), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 48
    assert "in use" in done.stderr.splitlines()[-1]
