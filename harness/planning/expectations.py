"""Expectations files: the cases that an adapter is known to fail, and why.

A file has three lists, `known-failing`, `skip` and `flaky`. An entry of any names its cases by a pattern over
their ids (`retryable-writes/insertOne::*`; `*` stands for any text), gives its reason, and may hold for some
`topologies` or `editions` only. Cases that are known to fail run, and must fail: one that passes is an
unexpected pass, so that an entry cannot outlive what it speaks of. An entry that no case of its file matches
is an error for the same cause. Flaky cases, whose limits a busy machine may not keep, fail when they fail
three times.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.deployments.targets import names_of, our_spelling
from harness.explaining.text import shortened, shown
from harness.planning.discovery import bundled_root, has_suffix, is_scenario
from harness.planning.plan import load_all
from harness.planning.result import Result, ResultStatus
from harness.unified import loader
from harness.unified.build import ROOTS, id_prefix, suite_of
from harness.unified.errors import ScenarioError
from harness.unified.loader import read_yaml, text_of
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from harness.planning.result import Result
    from mongowire.documents.marks import Marked


KNOWN_FAILING = "known-failing"
SKIP = "skip"
FLAKY = "flaky"
_LISTS = (KNOWN_FAILING, SKIP, FLAKY)
_KEYS = f"{', '.join(_LISTS[:-1])} and {_LISTS[-1]}"
_NO_REASON = "the reason is empty"
_ENTRY_FIELDS = ("case", "reason", "topologies", "editions")


class ExpectationsError(ValueError):
    """An expectations file is not valid: every complaint, one a line."""


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """One entry: a pattern of case ids, its kind, and its reason."""

    kind: str
    pattern: str
    reason: str
    location: str
    """`file:line` of the entry."""
    topologies: frozenset[str] = frozenset()
    editions: frozenset[str] = frozenset()

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return _expression(self.pattern)

    @property
    def file_pattern(self) -> str:
        """Return the pattern's part for the file, `spec/file`."""
        return self.pattern.partition("::")[0]

    def applies(self, topology: str, edition: str) -> bool:
        """Return whether the entry holds on this deployment, by whichever name, and in this edition."""
        return (not self.topologies or not self.topologies.isdisjoint(names_of(topology))) and (
            not self.editions or edition in self.editions
        )

    def is_in_file(self, name: str) -> bool:
        """Return whether the pattern may match cases of a file, which is called `spec/file`."""
        return _expression(self.file_pattern).fullmatch(name) is not None

    def is_in_folder(self, name: str) -> bool:
        """Return whether the pattern may match cases of a file in this folder."""
        return _expression(self.file_pattern.rpartition("/")[0]).fullmatch(name) is not None

    def matches(self, case_id: str) -> bool:
        """Return whether the pattern matches this id."""
        return self._expression.fullmatch(case_id) is not None

    def covered_by(self, files: Collection[str]) -> bool:
        """Return whether a run of these files (`spec/file`) must meet the entry's cases.

        A pattern that is open about the file may mean one that is not in the run, so it is never covered.
        """
        return "*" not in self.file_pattern and self.file_pattern in files


@dataclass(frozen=True)
class Expectations:
    """The entries of one file, in order; the first that matches a case counts."""

    entries: tuple[Entry, ...] = ()

    def find(self, case_id: str, topology: str, edition: str) -> Entry | None:
        """Return the entry for this case on this deployment, in this edition."""
        return next((e for e in self.entries if e.applies(topology, edition) and e.matches(case_id)), None)

    def judge(self, result: Result) -> Result:
        """Return the result with its status under the expectations."""
        entry = self.find(result.id, result.topology, result.edition)
        if entry is None or entry.kind != KNOWN_FAILING:
            return result
        if result.status is ResultStatus.FAILED:
            return result.becomes(ResultStatus.KNOWN_FAILING, entry.reason)
        if result.status is ResultStatus.PASSED:
            stale = f"it passed, but {entry.location} expects it to fail ({entry.reason}): delete that entry"
            return result.becomes(ResultStatus.UNEXPECTED_PASS, stale)
        return result

    def is_flaky(self, result: Result) -> bool:
        """Return whether a result is a failure that may go away when the case runs again."""
        entry = self.find(result.id, result.topology, result.edition)
        return result.status is ResultStatus.FAILED and entry is not None and entry.kind == FLAKY

    def unmatched(self, case_ids: Iterable[str]) -> list[str]:
        """Return a complaint for each entry whose file is among these cases', but none of whose cases is."""
        ids = tuple(case_ids)
        files = {case_id.partition("::")[0] for case_id in ids}
        return [
            f"{entry.location}: no case matches '{entry.pattern}': delete the entry or mend it"
            for entry in self.entries
            if entry.covered_by(files) and not any(entry.matches(case_id) for case_id in ids)
        ]


def of_adapter(adapter: str, path: Path | None = None) -> Expectations:
    """Return an adapter's expectations: those of a file, by default the bundled ones.

    Those are in the file of the adapter's name, or else in that of the name before the dash, which the
    adapters of one driver share.
    """
    names = (adapter, adapter.partition("-")[0])
    bundled = (bundled_root() / "expectations" / f"{name}.yml" for name in names)
    found = path or next((file for file in bundled if file.exists()), None)
    return load(found) if found else Expectations()


def load(path: Path) -> Expectations:
    """Read an expectations file; an empty one expects nothing to fail.

    Raises `ExpectationsError`, which names file, line and field.
    """
    with suppress(OSError):  # the reader says why a file cannot be read
        if path == Path(os.devnull) or (path.is_file() and not path.stat().st_size):
            return Expectations()
    try:
        return parse(loader.read(path))
    except ScenarioError as error:
        raise ExpectationsError(str(error)) from error


def parse(document: Marked, *, drafts: bool = False) -> Expectations:
    """Check a document and return its entries. Raises `ExpectationsError`.

    With `drafts`, entries may still lack a reason.
    """
    found = _complaints(document.value)
    complaints = [
        f"{_location(document, where)}: {why}"
        for where, why in found
        if not (drafts and why.startswith(_NO_REASON))
    ]
    if complaints:
        raise ExpectationsError("\n".join(complaints))
    return Expectations(
        tuple(
            Entry(
                kind,
                raw["case"],
                raw["reason"],
                _location(document, (kind, index)),
                frozenset(map(our_spelling, raw.get("topologies", ()))),
                frozenset(map(str, raw.get("editions", ()))),
            )
            for kind in _LISTS
            for index, raw in enumerate((document.value or {}).get(kind) or ())
        )
    )


def _location(document: Marked, where: Sequence[str | int]) -> str:
    location = document.locate(where)
    return f"{location.path}:{location.line}"


def _complaints(document: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if not document:
        return
    if not isinstance(document, dict):
        yield (), f"an expectations file has the keys {_KEYS}"
        return
    for kind, entries in document.items():
        if kind not in _LISTS:
            yield (kind,), f"unknown key '{kind}': the keys are {_KEYS}"
        elif not isinstance(entries, list):
            yield (kind,), f"'{kind}' holds a list of entries"
        else:
            for index, raw in enumerate(entries):
                yield from (((kind, index, *where), why) for where, why in _entry_complaints(raw))


def _entry_complaints(raw: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(raw, dict):
        yield (), f"an entry has the keys {', '.join(_ENTRY_FIELDS)}"
        return
    for key in raw:
        if key not in _ENTRY_FIELDS:
            yield (key,), f"unknown key '{key}': an entry has the keys {', '.join(_ENTRY_FIELDS)}"
    if not isinstance(raw.get("case"), str) or not raw["case"].strip():
        yield (), "the entry needs 'case', a text"
    if isinstance(raw.get("reason"), str) and not raw["reason"].strip():
        yield ("reason",), f"{_NO_REASON}: fill in why '{raw.get('case')}' is in this list"
    elif not isinstance(raw.get("reason"), str):
        yield (), "the entry needs 'reason', a text"
    if isinstance(raw.get("case"), str) and "::" not in raw["case"]:
        yield ("case",), f"'{raw['case']}' is no pattern of ids: write spec/file::description"
    for key in ("topologies", "editions"):
        if key in raw and not (isinstance(raw[key], list) and raw[key]):
            yield (key,), f"'{key}' is a list that is not empty"


# Entries of an expectations file that speak of nothing: no such folder, no such file, no such case.
#
# A run of a few files, or of the cases that `-k` selects, says nothing about the others. So an entry that
# no case of the run matches is looked for beside the run's files, where their suite is, and among the
# bundled scenarios: it is wrong when it is nowhere.


def nowhere(expectations: Expectations, case_ids: Iterable[str], paths: Iterable[Path]) -> list[str]:
    """Return a complaint for each entry that matches neither a case of the run nor one of its suites.

    `case_ids` are the ids of all cases in the files of the run, and `paths` those files.
    """
    ids, files = tuple(case_ids), tuple(paths)
    suites = dict.fromkeys((*map(suite_of, files), bundled_root()))
    return [
        f"{entry.location}: no case matches '{entry.pattern}': {why}: delete the entry or mend it"
        for entry in expectations.entries
        if not any(entry.matches(case_id) for case_id in ids) and (why := _missing(entry, files, suites))
    ]


def _missing(entry: Entry, files: Sequence[Path], suites: Iterable[Path]) -> str:
    """Return what is missing of an entry's folder, file and case; nothing when all are there."""
    folder = entry.file_pattern.rpartition("/")[0]
    prefixes = {path: id_prefix(path) for path in (*files, *_beside(entry, suites))}
    if not any(entry.is_in_folder(prefix.rpartition("/")[0]) for prefix in prefixes.values()):
        return f"there is no folder '{folder}'"
    of_file = [path for path, prefix in prefixes.items() if entry.is_in_file(prefix)]
    if not of_file:
        return f"there is no file '{entry.file_pattern}'"
    load = load_all(path for path in of_file if is_scenario(path))
    # A file that cannot be read may have the case.
    found = load.complaints or any(entry.matches(case.id) for case in load.cases)
    return "" if found else f"'{entry.file_pattern}' has no such case"


def _beside(entry: Entry, suites: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of the suites that may be an entry's: below the folders that its pattern begins with.

    A folder that stands for itself may be anywhere, so that only its own files and those beside it count.
    """
    first, within, _ = entry.file_pattern.partition("/")
    for suite in suites:
        if not within:
            yield from filter(has_suffix, sorted(suite.glob("*")))
        elif "*" not in first:
            yield from filter(has_suffix, sorted((suite / first).rglob("*")))
        elif suite.name in ROOTS:
            for folder in sorted(suite.glob(first)):
                yield from filter(has_suffix, sorted(folder.rglob("*")))


# Drafts of expectations files: the cases that a run has failed, with the reasons left to fill in.
#
# An entry without a reason is refused when the file is used, because nobody can judge later whether it still
# holds. A draft therefore cannot hide a failure that nobody has looked at. A file that exists is added to as
# text, so that its comments, its order and its reasons stay; it is written only if it then holds exactly the
# old entries and the new ones.


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
    new = [each for each in results if known.find(each.id, each.topology, each.edition) is None]
    added = tuple(failures(new))
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
            first = failed[0]
            why = " ".join(first.reason.split()) or first.mismatch
            remark = shortened(f"{shown(first.location)}: {why}", _COMMENT_WIDTH)
            yield DraftEntry(case, tuple(topologies), remark)


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


def _is_sum(found: Expectations, known: Expectations, added: Sequence[DraftEntry]) -> bool:
    """Return whether a file has all its old entries, and the new ones after those of their list."""
    entries = [replace(entry, location="") for entry in found.entries]
    old = [replace(entry, location="") for entry in known.entries]
    before = sum(entry.kind == KNOWN_FAILING for entry in old)
    new = [Entry(KNOWN_FAILING, entry.case, "", "", frozenset(entry.topologies)) for entry in added]
    return entries == [*old[:before], *new, *old[before:]]


def _quoted(text: str) -> str:
    """Return a text as a YAML scalar in double quotes."""
    return json.dumps(text, ensure_ascii=not text.isprintable())
