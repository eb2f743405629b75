"""The file of `--config`: mongod's own YAML, read as the options that it stands for.

It is strict: an unknown key and a value of another type are errors with file, line and cure. Options of the
command line win over those of the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.cli.options import OPTIONS, Takes
from fakeserver.control.scenario.loader import ProblemReport, read
from mongowire.documents.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeserver.cli.options import Key, ServeOption
    from fakeserver.control.scenario.loader import PlacedValue


class _Entry(NamedTuple):
    """A key of the file: what its value is, and the arguments that it stands for."""

    kind: str
    arguments: Callable[[Any], list[str]]
    choices: tuple[str, ...] = ()


def _entry(row: ServeOption, key: Key) -> _Entry:
    """Return what a key of the file is, of the row of its option."""
    option = row.option
    if key.word:
        return _Entry(
            Takes.TEXT.value,
            lambda value: [option] if value == key.word else [],
            tuple(sorted({key.word, *key.others})),
        )
    if row.takes is Takes.FLAG:
        return _Entry(row.takes.value, lambda value: [] if value is key.inverted else [option])
    if row.takes is Takes.TEXTS:
        return _Entry(
            row.takes.value,
            lambda value: [
                part for name, each in value.items() for part in (option, f"{name}={_setting(each)}")
            ],
        )
    if row.takes is Takes.LEVEL:
        return _Entry(row.takes.value, lambda value: [option] * value)
    return _Entry(row.takes.value, lambda value: [option, str(value)], key.words)


def _both(first: _Entry, second: _Entry) -> _Entry:
    """Return the entry of a key whose words stand for several options."""
    return _Entry(
        first.kind,
        lambda value: [*first.arguments(value), *second.arguments(value)],
        tuple(sorted({*first.choices, *second.choices})),
    )


def _setting(value: Any) -> str:
    """Return the value of a parameter as a text of the command line."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _tree() -> dict[str, Any]:
    """Return the keys of the table, nested as in the file."""
    tree: dict[str, Any] = {}
    for row in OPTIONS:
        for key in row.keys:
            *above, last = key.path.split(".")
            place = tree
            for name in above:
                place = place.setdefault(name, {})
            entry = _entry(row, key)
            place[last] = _both(place[last], entry) if last in place else entry
    return tree


_KEYS: Final[Mapping[str, Any]] = _tree()


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_IS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "a text": lambda value: isinstance(value, str),
    "a whole number": _is_whole,
    "a whole number from 0": _is_whole,
    "a number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "true or false": lambda value: isinstance(value, bool),
    "a mapping of parameters": lambda value: isinstance(value, dict),
}


def arguments_of(path: Path | str) -> list[str]:
    """Return the arguments that a file stands for.

    Raises `ScenarioFileError`, with a line for each mistake.
    """
    if _is_empty(path):
        return []
    marked, report = read(path), ProblemReport()
    arguments = list(_arguments(marked, _KEYS, report))
    report.end()
    return arguments


def _is_empty(path: Path | str) -> bool:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False  # `read` tells why
    return all(not line.strip() or line.lstrip().startswith("#") for line in lines)


def _arguments(marked: PlacedValue, known: Mapping[str, Any], report: ProblemReport) -> Iterator[str]:
    if not marked.is_mapping:
        report.add(marked, f"holds keys of mongod: {', '.join(known)}")
        return
    for name, inner in marked.members.items():
        key = known.get(str(name))
        if key is None:
            report.add(marked, unknown("key", name, known).message, place=marked.keys.get(str(name)))
        elif isinstance(key, _Entry):
            yield from _of_key(inner, key, report)
        else:
            yield from _arguments(inner, key, report)


def _of_key(marked: PlacedValue, key: _Entry, report: ProblemReport) -> list[str]:
    value = marked.value
    if not _IS[key.kind](value):
        report.add(marked, f"{value!r} is not {key.kind}")
    elif key.choices and value not in key.choices:
        report.add(marked, unknown("value", value, key.choices).message)
    else:
        return key.arguments(value)
    return []
