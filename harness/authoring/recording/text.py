"""Values as YAML text, in the style of scenarios: on one line what fits there, the rest in blocks.

The first half writes values, the second (`Edits`) puts them into a text at places of its outline. Libraries
that write YAML lose comments, anchors and the choice between braces and blocks, all of which authors care
for; so text is inserted and replaced by position. `Edits` are applied from the end of the text to its
beginning, so that a place stays right until its own turn.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bson import json_util

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mongowire.documents.outline import OutlineNode


WIDTH: Final = 110
"""Columns, as in this project's own scenarios."""

_PLAIN: Final = re.compile(r"[A-Za-z_$][\w$.-]*(?: [\w$.-]+)*", re.ASCII)
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""What some version of YAML takes for another thing than text."""

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
_STEP: Final = 2


class Alias(str):
    """The name of an anchor, which stands for a value that the file has given."""

    __slots__ = ()


def in_flow(value: Any) -> str:
    """Return a value on one line. BSON values become relaxed Extended JSON."""
    if isinstance(value, Alias):
        return f"*{value}"
    if isinstance(value, str):
        return _scalar(value)
    if isinstance(value, dict):
        inside = ", ".join(f"{_scalar(name)}: {in_flow(member)}" for name, member in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(in_flow, value))}]"
    # Relaxed, because scenarios have plain numbers; what JSON has no word for becomes a document such as
    # $oid.
    text = json_util.dumps(value, json_options=json_util.RELAXED_JSON_OPTIONS)
    return in_flow(json.loads(text)) if text.startswith("{") else text


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    """Return a character of quoted text. YAML, unlike JSON, does not join surrogates."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def as_member(name: str, value: Any, *, indent: int, blocks: int = 0) -> list[str]:
    """Return the lines of a mapping's member.

    So many outer levels of collections as `blocks` says are written in block style, also when they would fit
    on a line.
    """
    line = f"{' ' * indent}{_scalar(name)}: {in_flow(value)}"
    if not _wants_a_block(value, blocks) and (len(line) <= WIDTH or not _is_collection(value)):
        return [line]
    return [f"{' ' * indent}{_scalar(name)}:", *_in_block(value, indent + _STEP, blocks - 1)]


def _in_block(value: Any, indent: int, blocks: int) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from as_member(name, member, indent=indent, blocks=blocks)
        return
    for element in value:
        line = f"{' ' * indent}- {in_flow(element)}"
        if not _wants_a_block(element, blocks) and (len(line) <= WIDTH or not _is_collection(element)):
            yield line
            continue
        first, *others = _in_block(element, indent + _STEP, blocks - 1)
        yield f"{' ' * indent}- {first.lstrip()}"
        yield from others


def _wants_a_block(value: Any, blocks: int) -> bool:
    return blocks > 0 and _is_collection(value)


def _is_collection(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple)) and bool(value)


# Edits of a scenario's text: members come in or are replaced, and everything else stays to the letter.


@dataclass(slots=True)
class Edits:
    """Edits that wait for each other, because each would move the places of those behind it."""

    text: str
    _edits: list[tuple[int, int, str]] = field(default_factory=list)

    def member(
        self, mapping: OutlineNode, name: str, value: Any, *, after: str = "", blocks: int = 0
    ) -> None:
        """Give a mapping a member: in place of the one of that name, or else behind another or the last."""
        if name in mapping.members:
            key, old = mapping.members[name]
            lines = as_member(name, value, indent=self._indent(mapping), blocks=blocks)
            new = f"{name}: {in_flow(value)}" if mapping.is_flow else self._newline.join(lines).lstrip()
            self._edits.append((key.start, old.end, new))
            return
        _, last = mapping.members.get(after) or list(mapping.members.values())[-1]
        if mapping.is_flow:
            self._put(last.end, f", {name}: {in_flow(value)}")
        else:
            # Below the line on which the last member ends.
            at = self._end_of_line(last.end)
            new = "".join(
                f"{line}{self._newline}"
                for line in as_member(name, value, indent=self._indent(mapping), blocks=blocks)
            )
            whole = self.text[:at].endswith("\n")
            self._put(at, new if whole else self._newline + new.removesuffix(self._newline))

    def __len__(self) -> int:
        return len(self._edits)

    def scalar(self, node: OutlineNode, value: str) -> None:
        """Replace a scalar."""
        self._edits.append((node.start, node.end, value))

    def removal(self, mapping: OutlineNode, name: str) -> None:
        """Take a member out of a mapping in block style, with its lines."""
        key, value = mapping.members[name]
        start = self.text.rfind("\n", 0, key.start) + 1
        self._edits.append((start, self._end_of_line(value.end), ""))

    def replaced(self) -> Iterator[tuple[int, int]]:
        """Yield the extents of the text that will not be there any more."""
        return ((start, end) for start, end, _ in self._edits if start < end)

    def applied(self) -> str:
        """Return the text with all edits."""
        text = self.text
        for start, end, new in sorted(self._edits, key=lambda edit: edit[0], reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def _put(self, at: int, new: str) -> None:
        """Insert a text, behind what was inserted at this place before."""
        for index, (start, end, before) in enumerate(self._edits):
            if start == end == at:
                self._edits[index] = (at, at, before + new)
                return
        self._edits.append((at, at, new))

    def _end_of_line(self, end: int) -> int:
        """Return where the next line begins, or the end of the text."""
        newline = self.text.find("\n", end)
        return len(self.text) if newline < 0 else newline + 1

    def _indent(self, mapping: OutlineNode) -> int:
        key, _ = next(iter(mapping.members.values()))
        return key.start - (self.text.rfind("\n", 0, key.start) + 1)

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"
