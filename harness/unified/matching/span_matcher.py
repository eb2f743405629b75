"""Does a client have the spans that a scenario expects? The first divergence, or None.

Unified Test Format: expectedTracingMessagesForClient. Spans are a tree; those of one level are compared in
the order in which they began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.unified.matching.matcher import Mismatch, match, missing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.adapters.base import Event
    from harness.unified.matching.matcher import Entities
    from harness.unified.model import ExpectedSpan, ExpectedSpans
    from mongowire.documents.marks import Location

    Found = tuple[Mismatch, Location] | None


def match_spans(expected: ExpectedSpans, spans: Sequence[Event], *, entities: Entities) -> Found:
    """Return the first divergence of a client's spans, with the line of the span that was expected."""
    tree = _Tree(spans, entities, ignore_extra=expected.ignore_extra)
    return tree.match_level(expected.spans, tree.roots, expected.location)


class _Tree:
    """What a client has. A span whose parent is not the client's is a root."""

    def __init__(self, spans: Sequence[Event], entities: Entities, *, ignore_extra: bool) -> None:
        self._entities = entities
        self._ignore_extra = ignore_extra
        self.roots: list[Mapping[str, Any]] = []
        self._nested: dict[Any, list[Mapping[str, Any]]] = {span.fields["id"]: [] for span in spans}
        for span in spans:
            self._nested.get(span.fields["parent"], self.roots).append(span.fields)

    def match_level(
        self, expected: Sequence[ExpectedSpan], actual: Sequence[Mapping[str, Any]], location: Location
    ) -> Found:
        """Compare the spans within one; each of the expected ones follows the one before it."""
        left = list(actual)
        for index, want in enumerate(expected):
            found = self._match_next(want, left)
            if found is not None:
                return found[0].below(f"[{index}]"), found[1]
        if left and not self._ignore_extra:
            name = left[0]["name"]
            why = f"expected {len(expected)} spans, got {len(actual)}; the first extra one is {name!r}"
            return Mismatch(f"[{len(expected)}]", missing, name, why), location
        return None

    def _match_next(self, expected: ExpectedSpan, left: list[Mapping[str, Any]]) -> Found:
        """Take spans away up to the one that is expected: the next, unless extra spans are ignored."""
        first: Found = None
        while left:
            found = self._match(expected, left.pop(0))
            if found is None:
                return None
            first = first or found
            if not self._ignore_extra:
                break
        gone = Mismatch(
            "", expected.name, missing, f"expected a span {expected.name!r}, but there is no more"
        )
        return first or (gone, expected.location)

    def _match(self, expected: ExpectedSpan, actual: Mapping[str, Any]) -> Found:
        name = actual["name"]
        if name != expected.name:
            why = f"expected {expected.name!r}, got {name!r}"
            return Mismatch("name", expected.name, name, why), expected.location
        found = match(dict(expected.attributes), actual["attributes"], entities=self._entities)
        if found is not None:
            return found.below("attributes"), expected.location
        below = self.match_level(expected.nested, self._nested[actual["id"]], expected.location)
        return None if below is None else (below[0].below("nested"), below[1])
