"""Values as YAML text, in the style of scenarios: on one line what fits there, the rest in blocks."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from bson import json_util

if TYPE_CHECKING:
    from collections.abc import Iterator

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
