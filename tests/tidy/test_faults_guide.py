"""The guide to faults names every phase, effect and filter of faults of bytes."""

from __future__ import annotations

import re
from pathlib import Path

from fakeserver.network.fault_effects import EFFECTS
from fakeserver.network.faults import FIELDS, FaultPhase

SECTION = (Path(__file__).parents[2] / "docs" / "FAULTS.md").read_text().split("\n## ")


def _rows(head: str) -> set[str]:
    """Return the words in the first cells of the table with this head."""
    (section,) = (part for part in SECTION if part.startswith("Faults of bytes"))
    rows = section.split(f"| {head} |")[1].partition("\n\n")[0].splitlines()[2:]
    return {word for row in rows for word in re.findall(r"`(\w+)", row.split("|")[1])}


def test_the_table_of_phases_is_complete() -> None:
    assert _rows("`at`") == {phase.value for phase in FaultPhase}


def test_the_table_of_effects_is_complete() -> None:
    assert _rows("`do`") == set(EFFECTS)


def test_the_table_of_filters_is_complete() -> None:
    assert _rows("filter") == set(FIELDS) - {"name", "at", "byte", "do"}
