"""Results for programs: one JSON object a case, in the order of the plan, then one with the totals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from harness.running.plan import Settings
    from harness.running.result import Result, Tally

_FIELDS = ("id", "status", "reason", "topology", "adapter", "driver", "edition", "duration_ms")


class JsonLines:
    """Writes each result as soon as its turn has come."""

    def __init__(self, stream: TextIO, settings: Settings) -> None:
        self._stream = stream
        self._settings = settings

    def result(self, result: Result) -> None:
        """Write one case."""
        document = result.to_dict()
        document["driver"] = self._settings.driver(result.adapter)
        self._write({name: document[name] for name in _FIELDS})

    def summary(self, tally: Tally, *, unusable_files: int = 0) -> None:
        """Write the totals, under the names of the statuses, and how many files could not be used."""
        counts = {status.value: count for status, count in tally.counts.items()}
        self._write({"summary": {**counts, "unusable-files": unusable_files}})

    def _write(self, document: object) -> None:
        self._stream.write(json.dumps(document, ensure_ascii=False) + "\n")
        self._stream.flush()
