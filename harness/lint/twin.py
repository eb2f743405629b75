"""The JSON twin of a YAML file: the same values, for drivers that read no YAML."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

    from harness.unified.marks import Marked

    Steps: TypeAlias = tuple[str | int, ...]


def twin_of(path: Path) -> Path | None:
    """Return the JSON file beside a YAML file, if there is one."""
    twin = path.with_suffix(".json")
    return twin if path.suffix != ".json" and twin.is_file() else None


def difference(value: Any, twin: Any) -> Steps | None:
    """Return the path to the first difference, or None. JSON knows one kind of number: 1.0 is 1."""
    if json.dumps(value, sort_keys=True) == json.dumps(twin, sort_keys=True):  # nearly always, and fast
        return None
    return _first_difference(value, twin)


def _first_difference(value: Any, twin: Any) -> Steps | None:
    if isinstance(value, dict) and isinstance(twin, dict):
        return _of_members(value, twin)
    if isinstance(value, list) and isinstance(twin, list):
        return _of_elements(value, twin)
    same = value == twin and isinstance(value, bool) == isinstance(twin, bool)
    return None if same else ()


def _of_members(value: dict[str, Any], twin: dict[str, Any]) -> Steps | None:
    for name, member in value.items():
        if name not in twin:
            return (name,)
        below = _first_difference(member, twin[name])
        if below is not None:
            return (name, *below)
    return None if len(value) == len(twin) else ()


def _of_elements(value: list[Any], twin: list[Any]) -> Steps | None:
    for index, (member, other) in enumerate(zip(value, twin, strict=False)):
        below = _first_difference(member, other)
        if below is not None:
            return (index, *below)
    return None if len(value) == len(twin) else ()


def to_json(document: Marked) -> str:
    """Return the text of a document's twin. Raises `ScenarioError` for numbers that JSON does not have."""
    _refuse_beyond_json(document)
    return json.dumps(document.value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _refuse_beyond_json(item: Marked) -> None:
    if isinstance(item.value, float) and not math.isfinite(item.value):
        raise ScenarioError(
            f"JSON has no {item.value}", location=item.location, fix='write {$numberDouble: "Infinity"} …'
        )
    steps = (
        item.value
        if isinstance(item.value, dict)
        else range(len(item.value))
        if isinstance(item.value, list)
        else ()
    )
    for step in steps:
        _refuse_beyond_json(item[step])
