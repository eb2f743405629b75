"""Every name that the unified test format has here, with the minor version that brought it.

They are read out of the schema and the tables of operations and operators, so that none can be forgotten:

- `client.observeEvents`: a field, after the nearest field that holds it; at the top of a file, `file`;
- `topologies=sharded`: a word that a field may have as its value;
- `client.close()`: an operation, after what it is run on;
- `$$exists`: a special operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind
from harness.lint.commands import OPERATIONS as SINCE_OPERATIONS
from harness.lint.commands import OPERATORS as SINCE_OPERATORS
from harness.unified.matching.matcher import OPERATORS
from harness.unified.operations import OPERATIONS
from harness.unified.schema.events import LOG_LEVELS
from harness.unified.schema.grammar import MINOR_MAX, PARTS, file_schema, part_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SYNTAX = ("$$placeholder", "$$hexBytes")
"""What looks like an operator and stands in arguments and options instead."""

OWN = frozenset({"pushbackd", "assertRetryTokens", "repeat"})
"""A field and operations that are not the format's but our own."""


def features() -> dict[str, int]:
    """Return every name with its first minor version."""
    found: dict[str, int] = {}
    for minor in range(MINOR_MAX + 1):
        for name in names_of_schema(minor):
            found.setdefault(name, minor)
    for kind, name in OPERATIONS.keys() - {(EntityKind.TEST_RUNNER, name) for name in OWN}:
        owner = kind.value
        found[f"{owner}.{name}()"] = SINCE_OPERATIONS.get(name, SINCE_KINDS.get(owner, 0))
    for name in (*OPERATORS, *SYNTAX):
        found[name] = SINCE_OPERATORS.get(name, 0)
    return found


SINCE_KINDS = {"findCursor": 3, "commandCursor": 3, "clientEncryption": 8}
"""Kinds of entity that came later than the operations of the same names on others."""


def names_of_schema(minor: int) -> Iterator[str]:
    """Yield the names that files of a version may have, and the words that only arguments may have."""
    schema = file_schema(minor)
    yield from _names(schema, "file", schema["definitions"])
    for part in PARTS if minor >= SINCE_HEARTBEATS else ():
        yield from (name for name in _names(part_schema(part), part, {}) if name.startswith("observeEvents="))


SINCE_HEARTBEATS = 17
"""Clients that are made inside cases may observe heartbeats, which the format's own schemas never say."""


def _names(schema: Any, owner: str, definitions: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    for word in schema.get("enum", ()):
        yield f"{'level' if word in LOG_LEVELS else owner}={word}"
    for name, inner in schema.get("properties", {}).items():
        if inner is not False and not name.startswith("$$") and name not in OWN:
            yield f"{owner}.{name}"
            yield from _names(inner, name, definitions)
    if schema.get("patternProperties"):
        yield f"{owner}.provider:name"
    if "$ref" in schema and owner != "nested":  # spans, whose nested ones are spans again
        yield from _names(definitions["span"], owner, definitions)
    for inner in (schema.get("items"), schema.get("then"), *schema.get("allOf", ())):
        yield from _names(inner, owner, definitions)
