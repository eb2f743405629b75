from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import pytest
from click.testing import CliRunner, Result
from scenario_files import WriteScenario, scenario_text

from harness.cli import cli

if TYPE_CHECKING:
    from pathlib import Path

Pushbackd: TypeAlias = Callable[..., Result]


@pytest.fixture
def pushbackd() -> Pushbackd:
    """Return a function that runs the command line in this process."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(cli, list(map(str, arguments)))

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a file below the test's own folder."""

    def write_file(content: str | bytes, name: str = "case.yml") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture
def write_scenario(tmp_path: Path) -> WriteScenario:
    """Return a function that writes a scenario file below the test's own folder."""

    def write(*descriptions: str, name: str = "tiny", spec: str = "spec", **parts: str) -> Path:
        path = tmp_path / spec / f"{name}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(scenario_text(*descriptions, name=name, **parts))
        return path

    return write
