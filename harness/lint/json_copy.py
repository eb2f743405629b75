"""The JSON copy of a YAML file: the same values, for drivers that read no YAML.

Public tests come in both forms. A driver that runs the JSON file tests something else as soon as that falls
behind, and nobody sees it in the file that people read and change. The order of fields does not count.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

    from mongowire.documents.marks import Marked

    Steps: TypeAlias = tuple[str | int, ...]


def copy_of(path: Path) -> Path | None:
    """Return the JSON file beside a YAML file, if there is one."""
    copy = path.with_suffix(".json")
    return copy if path.suffix != ".json" and copy.is_file() else None


def difference(value: Any, copy: Any) -> Steps | None:
    """Return the path to the first difference, or None. JSON knows one kind of number: 1.0 is 1.

    An empty path means that the documents differ as a whole, such as by the number of their fields.
    """
    if json.dumps(value, sort_keys=True) == json.dumps(copy, sort_keys=True):  # nearly always, and fast
        return None
    return _first_difference(value, copy)


def _first_difference(value: Any, copy: Any) -> Steps | None:
    """Return the path to the first difference, in the order of the YAML file; None without one.

    A field or element that only the copy has is told by its parent, as it has no place in this file.
    """
    if isinstance(value, dict) and isinstance(copy, dict):
        for name, member in value.items():
            if name not in copy:
                return (name,)
            below = _first_difference(member, copy[name])
            if below is not None:
                return (name, *below)
    elif isinstance(value, list) and isinstance(copy, list):
        for index, (member, other) in enumerate(zip(value, copy, strict=False)):
            below = _first_difference(member, other)
            if below is not None:
                return (index, *below)
    else:  # Python takes true for 1
        same = value == copy and isinstance(value, bool) == isinstance(copy, bool)
        return None if same else ()
    return None if len(value) == len(copy) else ()


def to_json(document: Marked) -> str:
    """Return the text of a document's copy. Raises `ScenarioError` for numbers that JSON does not have."""
    _refuse_beyond_json(document)
    return json.dumps(document.value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _refuse_beyond_json(item: Marked) -> None:
    if isinstance(item.value, float) and not math.isfinite(item.value):
        raise ScenarioError(
            f"JSON has no {item.value}", location=item.location, fix='write {$numberDouble: "Infinity"} …'
        )
    if isinstance(item.value, (dict, list)):
        for step in item.value if isinstance(item.value, dict) else range(len(item.value)):
            _refuse_beyond_json(item[step])
