"""`pushbackd serve --ui`."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from asking import HttpDoor

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Logged:
    """The door that a process says it has, in its log."""

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


def test_the_log_says_the_address_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUSHBACKD_HOME", str(tmp_path))
    with subprocess.Popen(
        serving("--ui", "0"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            lines = (json.loads(line) for line in process.stderr)
            page = next(line["attr"]["url"] for line in lines if line["msg"] == "Live page")
            assert HttpDoor(Logged(page)).perform("state")["topology"] == "single"
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
