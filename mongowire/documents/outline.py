"""The outline of a YAML file: the place of each node in the text, for a program that edits it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SCANNERS: Final[Sequence[Any]] = (getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """A node: `text[start:end]`, without the blank lines and comments that follow it.

    `is_flow` says that it is written in brackets or braces. A scalar and an alias have nothing inside.
    """

    start: int
    end: int
    is_flow: bool = False
    anchor: str = ""
    alias: str = ""
    members: Mapping[str, tuple[OutlineNode, OutlineNode]] = field(default_factory=dict)
    """The keys and values of a mapping, under the keys' text."""
    elements: Sequence[OutlineNode] = ()

    def at(self, *steps: str | int) -> OutlineNode | None:
        """Return the node at the end of a path, or None; a path does not lead through an alias."""
        node = self
        for step in steps:
            if isinstance(step, int) and step < len(node.elements):
                node = node.elements[step]
            elif isinstance(step, str) and step in node.members:
                node = node.members[step][1]
            else:
                return None
        return node

    def every(self) -> Iterator[OutlineNode]:
        """Yield the node and all within it, in the order of the text."""
        yield self
        for key, value in self.members.values():
            yield from key.every()
            yield from value.every()
        for element in self.elements:
            yield from element.every()


def outline(text: str) -> OutlineNode | None:
    """Return the root of a YAML text, or None when its places cannot be told.

    The text has been read by the loader before, which is less strict about the names of anchors.
    """
    for scanner in _SCANNERS:
        with suppress(yaml.YAMLError):
            events = iter(yaml.parse(text, Loader=scanner))
            root = next(event for event in events if isinstance(event, (yaml.NodeEvent, yaml.StreamEndEvent)))
            return _node(root, events, text)
    return None


def _node(event: Any, events: Iterator[yaml.Event], text: str) -> OutlineNode:
    start = event.start_mark.index
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(event, events, text)
    if isinstance(event, yaml.SequenceStartEvent):
        return _sequence(event, events, text)
    end = start + len(text[start : event.end_mark.index].rstrip())
    if isinstance(event, yaml.AliasEvent):
        return OutlineNode(start, end, alias=event.anchor or "")
    return OutlineNode(start, end, anchor=getattr(event, "anchor", None) or "")


def _mapping(begin: Any, events: Iterator[yaml.Event], text: str) -> OutlineNode:
    members: dict[str, tuple[OutlineNode, OutlineNode]] = {}
    last = begin
    for last in events:
        if isinstance(last, yaml.MappingEndEvent):
            break
        key = _node(last, events, text)
        members[text[key.start : key.end].strip("\"'")] = (key, _node(next(events), events, text))
    ends = [value.end for _, value in members.values()]
    return OutlineNode(*_extent(begin, last, ends), begin.flow_style, begin.anchor or "", members=members)


def _sequence(begin: Any, events: Iterator[yaml.Event], text: str) -> OutlineNode:
    elements: list[OutlineNode] = []
    last = begin
    for last in events:
        if isinstance(last, yaml.SequenceEndEvent):
            break
        elements.append(_node(last, events, text))
    ends = [element.end for element in elements]
    return OutlineNode(*_extent(begin, last, ends), begin.flow_style, begin.anchor or "", elements=elements)


def _extent(begin: Any, last: Any, ends: Sequence[int]) -> tuple[int, int]:
    """Return where a collection stands: one in block style ends where its last member does."""
    start = begin.start_mark.index
    if begin.flow_style:
        return start, last.end_mark.index
    return start, max([start, *ends])
