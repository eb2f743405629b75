"""The results of a sweep as one table: a row for each point, in the order of its grid."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

from harness.sim import parquet
from mongowire.whole_file import beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


def table(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return flat rows: seed, parameters by their paths, measures. What is nested becomes JSON."""
    return [
        {
            "seed": row["seed"],
            **{name: _flat(value) for name, value in row["parameters"].items()},
            **row["measures"],
        }
        for row in rows
    ]


def _flat(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with a line of names above them. Raises `OSError`."""
    with beside(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as Parquet; a column that mixes texts with numbers becomes text. Raises `OSError`."""
    with beside(path) as temporary:
        parquet.write(temporary, {name: _column([row[name] for row in rows]) for name in rows[0]})


def _column(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [value if value is None else float(value) for value in values]
    return values if len(kinds) <= 1 else [value if value is None else str(value) for value in values]
