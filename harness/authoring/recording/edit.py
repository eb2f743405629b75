"""Edits of a scenario's text: members come in or are replaced, and everything else stays to the letter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.authoring.recording.text import as_member, in_flow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mongowire.documents.outline import OutlineNode


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
            self._insert(last.end, as_member(name, value, indent=self._indent(mapping), blocks=blocks))

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

    def _insert(self, end: int, lines: list[str]) -> None:
        """Insert lines below the one on which something ends."""
        at = self._end_of_line(end)
        new = "".join(f"{line}{self._newline}" for line in lines)
        whole = self.text[:at].endswith("\n")
        self._put(at, new if whole else self._newline + new.removesuffix(self._newline))

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
