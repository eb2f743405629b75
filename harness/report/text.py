"""Values of scenarios and of drivers, as one line of text each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import json_util

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.adapters.base import Event

RELAXED = json_util.RELAXED_JSON_OPTIONS
_WIDTH = 240
_BODIES = ("command", "reply", "failure")
_GOSSIP = frozenset({"$clusterTime", "operationTime", "topologyVersion", "lsid"})


def one_line(value: Any) -> str:
    """Return Extended JSON, or Python's own form of what JSON cannot hold."""
    try:
        return json_util.dumps(value, json_options=RELAXED)
    except (TypeError, ValueError):
        return repr(value)


def shortened(text: str, width: int = _WIDTH) -> str:
    """Return at most `width` characters, with an ellipsis for what is left out."""
    return text if len(text) <= width else text[: width - 1] + "…"


def event_lines(events: Mapping[str, Sequence[Event]]) -> tuple[str, ...]:
    """Return what clients observed, one event a line, client by client, oldest first."""
    return tuple(_event_line(client, event) for client, observed in events.items() for event in observed)


def _event_line(client: str, event: Event) -> str:
    name = event.fields.get("commandName", "")
    told = next((event.fields[key] for key in _BODIES if key in event.fields), dict(event.fields))
    return shortened("  ".join(filter(None, (client, event.kind, name, one_line(without_gossip(told))))))


def without_gossip(value: Any) -> Any:
    """Return a document without what every message carries and no reader looks for."""
    if isinstance(value, dict):
        return {key: without_gossip(inner) for key, inner in value.items() if key not in _GOSSIP}
    return value


def indented(lines: Iterable[str], by: int) -> str:
    """Return lines as a block that is indented by `by` spaces."""
    return "\n".join(" " * by + line for line in lines)
