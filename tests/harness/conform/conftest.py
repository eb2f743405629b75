from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scenario_files import WriteScenario, scenario_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def write_scenario(tmp_path: Path) -> WriteScenario:
    """Return a function that writes a scenario file below the test's own folder."""

    def write(*descriptions: str, name: str = "tiny", spec: str = "spec", **parts: str) -> Path:
        path = tmp_path / spec / f"{name}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(scenario_text(*descriptions, name=name, **parts))
        return path

    return write
