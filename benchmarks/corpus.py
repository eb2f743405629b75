"""What came of the public cases, folder by folder, and which of them lasted longer than they explain.

`pushbackd conform CORPUS --topology matrix --json -q > results.jsonl`, with an `--adapter` or several, runs
them; `python -m benchmarks.corpus results.jsonl --corpus CORPUS` prints the table of `docs/CORPUS.md`, and to
standard error the cases that took more than a second beyond what they block and wait for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.planning.discovery import discover
from harness.planning.plan import allowance, load_all
from harness.planning.result import ResultStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.formats.case import AnyCase

    Record = dict[str, Any]

_SHOWN = (ResultStatus.PASSED, ResultStatus.KNOWN_FAILING, ResultStatus.SKIPPED)


def records(lines: Iterable[str]) -> list[Record]:
    """Return the results among JSON lines; the totals are left out."""
    return [record for record in map(json.loads, lines) if "id" in record]


def table(results: Sequence[Record]) -> Iterator[str]:
    """Yield the lines of the table: passed / failed as expected / skipped, and what else there is."""
    columns = list(dict.fromkeys((each["adapter"], each["topology"]) for each in results))
    counts: defaultdict[str, defaultdict[tuple[str, str], Counter[str]]]
    counts = defaultdict(lambda: defaultdict(Counter))
    for each in results:
        for folder in (each["id"].partition("/")[0], "**all**"):
            counts[folder][each["adapter"], each["topology"]][each["status"]] += 1
    yield f"| folder | {' | '.join(f'{adapter} {topology}' for adapter, topology in columns)} |"
    yield f"|---|{'---:|' * len(columns)}"
    for folder in sorted(counts, key=lambda name: (name.startswith("*"), name)):
        yield f"| {folder} | {' | '.join(_cell(counts[folder][column]) for column in columns)} |"


def _cell(counts: Counter[str]) -> str:
    usual = " / ".join(str(counts[status]) for status in _SHOWN)
    others = [f"{count} {status}" for status, count in counts.items() if status not in _SHOWN]
    return ", ".join([usual, *others])


def overdue(results: Iterable[Record], cases: Iterable[AnyCase]) -> list[tuple[float, Record]]:
    """Return the results that took more than a second beyond what their cases explain, longest first.

    Each comes with the seconds that are not explained.
    """
    allowances = {case.id: allowance(case) for case in cases}
    beyond = [
        (each["duration_ms"] / 1000 - allowances[each["id"]], each)
        for each in results
        if each["id"] in allowances
    ]
    return sorted((pair for pair in beyond if pair[0] > 1), key=lambda pair: -pair[0])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and what was slow."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus", description=__doc__)
    parser.add_argument("results", type=Path, help="what `pushbackd conform --json` has written")
    parser.add_argument("--corpus", type=Path, help="the files that were run, to tell which cases were slow")
    options = parser.parse_args(arguments)
    results = records(options.results.read_text().splitlines())
    print("\n".join(table(results)))
    if options.corpus is not None:
        for seconds, each in overdue(results, load_all(discover([options.corpus])).cases):
            print(f"{seconds:.1f} s  {each['id']}  [{each['adapter']}, {each['topology']}]", file=sys.stderr)


if __name__ == "__main__":
    main()
