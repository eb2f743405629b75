"""The formats of tests that need no server: what a driver knows of strings, deployments and servers.

`cases_of(path)` reads a file of any of them; the folders that it lies in say which.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from bson import json_util

from harness.formats import concerns, discovery, selection, strings
from harness.formats.check import FormatCase, MismatchError
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

__all__ = ["FORMATS", "FormatCase", "MismatchError", "cases_of"]

_DISCOVERY: Final = "server-discovery-and-monitoring/tests"

FORMATS: Final[Mapping[str, Callable[[str, Any], Iterable[FormatCase]]]] = {
    "auth/tests/legacy": strings.credentials,
    "connection-string/tests": strings.connection_strings,
    "max-staleness/tests": selection.suitable_servers,
    "read-write-concern/tests/connection-string": concerns.in_strings,
    "read-write-concern/tests/document": concerns.in_documents,
    **{f"{_DISCOVERY}/{kind}": discovery.phases for kind in ("errors", "load-balanced", "monitoring")},
    **{f"{_DISCOVERY}/{kind}": discovery.phases for kind in ("rs", "sharded", "single")},
    "server-selection/tests/in_window": selection.in_window,
    "server-selection/tests/rtt": selection.round_trip_times,
    "server-selection/tests/server_selection": selection.suitable_servers,
    "uri-options/tests": strings.connection_strings,
}
"""The folders of the formats, and what makes cases of a file: its name and its content."""


def cases_of(path: Path) -> tuple[FormatCase, ...]:
    """Read the cases of a JSON file. Raises ScenarioError for one that lies in no folder of a format."""
    folder = path.parent.as_posix() + "/"
    for place, read in FORMATS.items():
        if f"/{place}/" in folder:
            document = json.loads(path.read_text(encoding="utf-8"), object_hook=json_util.object_hook)
            below = folder.partition(f"/{place}/")[2]
            return tuple(read(f"{place.replace('/tests', '')}/{below}{path.stem}", document))
    raise ScenarioError(f"{path}: lies in no folder of a format that needs no server")
