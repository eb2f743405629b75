"""Tiny scenario files for tests of what finds, plans, runs and reports them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

WriteScenario: TypeAlias = Callable[..., Path]


def scenario_text(*descriptions: str, name: str = "tiny", requires: str = "", operations: str = "[]") -> str:
    """Return a scenario file with one case for each description."""
    on = f"runOnRequirements:\n  - {{{requires}}}\n" if requires else ""
    cases = "".join(
        f"  - description: {description!r}\n    operations: {operations}\n" for description in descriptions
    )
    return f'description: {name}\nschemaVersion: "1.0"\n{on}tests:\n{cases}'
