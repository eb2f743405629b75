"""Entries of an expectations file that speak of nothing: no such folder, no such file, no such case.

A run of a few files, or of the cases that `-k` selects, says nothing about the others. So an entry that no
case of the run matches is looked for beside the run's files, where their suite is, and among the bundled
scenarios: it is wrong when it is nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.running.discovery import bundled_root, has_suffix, is_scenario
from harness.running.plan import load_all
from harness.unified.build import ROOTS, id_prefix, suite_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from harness.running.expectations import Entry, Expectations


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
