"""The summary of a sweep: a row for each combination of parameters, over its seeds."""

from __future__ import annotations

import json
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MEASURES: Final = {
    "goodput": "good/s",
    "attempts_per_success": "attempts per success",
    "latency_p99": "p99 s",
    "recovery_time": "recovery s",
}
"""The measures of the summary, and the heads of their columns."""


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a row of texts for each combination of parameters, in the order of their first points.

    A number is the mean over the seeds, with half the range between the least and the largest behind it; of a
    measure that is not there for some seeds, how many; "none" where it is there for none.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(json.dumps(row["parameters"], sort_keys=True), []).append(row)
    return [_row(group) for group in groups.values()]


def _row(group: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    told = {name: _text(value) for name, value in group[0]["parameters"].items()}
    told["seeds"] = str(len(group))
    for name, head in _MEASURES.items():
        told[head] = _over_seeds([row["measures"].get(name) for row in group])
    return told


def _over_seeds(values: Sequence[float | None]) -> str:
    there = [value for value in values if value is not None]
    if not there:
        return "none"
    half = (max(there) - min(there)) / 2
    text = f"{fmean(there):.4g}" + (f" ±{half:.2g}" if half else "")
    return text if len(there) == len(values) else f"{text} ({len(values) - len(there)} without)"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
