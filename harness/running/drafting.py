"""Drafts of expectations files: the cases that a run has failed, with the reasons left to fill in.

An entry without a reason is refused when the file is used, because nobody can judge later whether it still
holds. A draft therefore cannot hide a failure that nobody has looked at. A file that exists is added to as
text, so that its comments, its order and its reasons stay; it is written only if it then holds exactly the
old entries and the new ones.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from harness.explaining.text import shortened, shown
from harness.running.expectations import KNOWN_FAILING, Entry, Expectations, ExpectationsError, parse
from harness.running.result import ResultStatus
from harness.unified.errors import ScenarioError
from harness.unified.loader import read_yaml, text_of
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from harness.running.result import Result

_HEAD: Final = """\
# The cases that a driver is known to fail, and why. Fill in each reason: a file with an empty one is refused.
# The cases run, and must fail: delete an entry when they pass.
"""
_KEY: Final = re.compile(rf"""^(["']?){KNOWN_FAILING}\1\s*:\s*(\[\s*\])?\s*(?=#|$)""")
_ITEM: Final = re.compile(r"^(\s*)- ")
_RAN: Final = frozenset({ResultStatus.PASSED, ResultStatus.KNOWN_FAILING, ResultStatus.UNEXPECTED_PASS})
_COMMENT_WIDTH: Final = 160


@dataclass(frozen=True, slots=True)
class DraftEntry:
    """A case to expect: `topologies` are those that it failed on, empty if it ran on no others."""

    case: str
    topologies: tuple[str, ...]
    remark: str
    """Where and why it failed, for whoever fills in the reason."""

    def lines(self, indent: str) -> Iterator[str]:
        """Yield the lines of the entry in its list."""
        yield f"{indent}# {self.remark}\n"
        yield f"{indent}- case: {_quoted(self.case)}\n"
        if self.topologies:
            yield f"{indent}  topologies: [{', '.join(map(_quoted, self.topologies))}]\n"
        yield f'{indent}  reason: ""\n'


@dataclass(frozen=True, slots=True)
class Draft:
    """The text of a file with new entries; `kept` is how many it had before."""

    text: str
    added: tuple[DraftEntry, ...]
    kept: int

    def __str__(self) -> str:
        several = "entry" if len(self.added) == 1 else "entries"
        kept = f", {self.kept} kept" if self.kept else ""
        if not self.added:
            return f"nothing to add{kept}"
        return f"{len(self.added)} {several} added{kept}: fill in the reasons"


def write_draft(path: Path, results: Sequence[Result]) -> Draft:
    """Add the cases that failed to an expectations file, which may be new.

    Raises `ExpectationsError` for a file that cannot be added to, and `OSError`; then it stays as it was.
    """
    draft = drafted(path, results)
    if draft.added:
        write_whole(path, draft.text)
    return draft


def drafted(path: Path, results: Sequence[Result] = ()) -> Draft:
    """Return what `write_draft` would write. Raises `ExpectationsError`."""
    if path.suffix == ".json":
        raise ExpectationsError(f"{path}: entries are written as YAML: name a file that ends in .yml")
    try:
        text = text_of(path) if path.exists() else _HEAD
        known = parse(read_yaml(text, path)[0], drafts=True) if path.exists() else Expectations()
    except ScenarioError as error:
        raise ExpectationsError(str(error)) from error
    added = tuple(failures(result for result in results if _is_new(result, known)))
    if not added:
        return Draft(text, (), len(known.entries))
    merged = with_entries(text, added)
    try:
        found = parse(read_yaml(merged, path)[0], drafts=True)
    except (ExpectationsError, ScenarioError):
        found = Expectations()
    if not _is_sum(found, known, added):
        raise ExpectationsError(
            f"{path}: entries cannot be added to the list '{KNOWN_FAILING}' as it is written: write it as a"
            " block, one entry below the other"
        )
    return Draft(merged, added, len(known.entries))


def failures(results: Iterable[Result]) -> Iterator[DraftEntry]:
    """Yield an entry for each case that failed, in the order of the results."""
    cases: dict[str, list[Result]] = {}
    for result in results:
        cases.setdefault(result.id, []).append(result)
    for case, of_case in cases.items():
        failed = [result for result in of_case if result.status is ResultStatus.FAILED]
        if failed:
            some = any(result.status in _RAN for result in of_case)
            topologies = dict.fromkeys(result.topology for result in failed) if some else ()
            yield DraftEntry(case, tuple(topologies), _remark(failed[0]))


def with_entries(text: str, entries: Sequence[DraftEntry]) -> str:
    """Return the text of an expectations file with more known failures, at the end of their list."""
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    begin = next((number for number, line in enumerate(lines) if _KEY.match(line)), None)
    if begin is None:
        return "".join([*lines, f"{KNOWN_FAILING}:\n", *_listed(entries, "  ")])
    lines[begin] = _KEY.sub(f"{KNOWN_FAILING}: ", lines[begin]).rstrip(" \n") + "\n"
    end = next((n for n in range(begin + 1, len(lines)) if re.match(r"[^\s#-]", lines[n])), len(lines))
    while end > begin + 1 and re.match(r"#|\s*$", lines[end - 1]):
        end -= 1  # what stands above the next key belongs to that
    items = (_ITEM.match(line) for line in lines[begin + 1 : end])
    indent = next((item[1] for item in items if item), "  ")
    gap = ["\n"] if end > begin + 1 else []
    return "".join([*lines[:end], *gap, *_listed(entries, indent), *lines[end:]])


def _listed(entries: Sequence[DraftEntry], indent: str) -> Iterator[str]:
    for number, entry in enumerate(entries):
        if number:
            yield "\n"
        yield from entry.lines(indent)


def _is_new(result: Result, known: Expectations) -> bool:
    return known.find(result.id, result.topology, result.edition) is None


def _is_sum(found: Expectations, known: Expectations, added: Sequence[DraftEntry]) -> bool:
    """Return whether a file has all its old entries, and the new ones after those of their list."""
    entries = [replace(entry, location="") for entry in found.entries]
    old = [replace(entry, location="") for entry in known.entries]
    before = sum(entry.kind == KNOWN_FAILING for entry in old)
    new = [Entry(KNOWN_FAILING, entry.case, "", "", frozenset(entry.topologies)) for entry in added]
    return entries == [*old[:before], *new, *old[before:]]


def _remark(result: Result) -> str:
    why = " ".join(result.reason.split()) or result.mismatch
    return shortened(f"{shown(result.location)}: {why}", _COMMENT_WIDTH)


def _quoted(text: str) -> str:
    """Return a text as a YAML scalar in double quotes."""
    return json.dumps(text, ensure_ascii=not text.isprintable())
