"""The record of mutants: for each suite, the case that killed each, in a file beside the mutants.

The next run tries that case first, and docs/MUTANTS.md is made of the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.planning.discovery import BadInputError
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

FILE: Final = "results.json"
SCENARIOS: Final = "scenarios"
CORPUS: Final = "corpus"
TESTS: Final = "tests"
SUITES: Final = (SCENARIOS, CORPUS, TESTS)
"""The suites of docs/MUTANTS.md."""
SWARM: Final = "swarm"
"""Drawn schedules, which are tried apart from the suites."""

SURVIVED: Final = ""
"""What stands for the killer of a mutant that a suite has let live."""


@dataclass(slots=True)
class MutantRecord:
    """The killer of each mutant in each suite that it was tried with, or `SURVIVED`."""

    killers: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> MutantRecord:
        """Read the record of a folder; there need not be one. Raises BadInputError."""
        path = folder / FILE
        if not path.exists():
            return cls()
        try:
            document: Mapping[str, Mapping[str, str]] = json.loads(path.read_text(encoding="utf-8"))
            return cls({name: dict(suites) for name, suites in document.items()})
        except (ValueError, AttributeError) as error:
            raise BadInputError(f"{path}: {error}; delete it, and a full run writes it anew") from error

    def write(self, folder: Path, names: Collection[str]) -> None:
        """Write what is known of the mutants that exist, a line for each in each suite."""
        kept = {name: self.killers[name] for name in sorted(self.killers) if name in names}
        write_whole(folder / FILE, json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")

    def killer(self, name: str, suite: str) -> str | None:
        """Return what killed a mutant; `SURVIVED` if nothing did, None if nobody has tried."""
        return self.killers.get(name, {}).get(suite)

    def note(self, name: str, suite: str, killer: str) -> None:
        """Take note of what killed a mutant."""
        self.killers.setdefault(name, {})[suite] = killer
