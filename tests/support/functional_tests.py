"""What a public suite of functional tests says of our servers: a table by area, for docs/ANSWERS.md.

`python tests/support/functional_tests.py` runs the suite of the checkout that `PUSHBACKD_FUNCTIONAL_TESTS`
names on a standalone and on a replica set of one member, prints the rows, and writes them into the page.
Folders of the suite, such as `core/cursors`, run these alone, and write the rows of the areas that they hold.
`--server NAME=URI`, for each server of another project that you have begun, and `--every 10` run each tenth
case on it and on ours, and write the page's second table.
The suite runs with the Python of its own virtual environment (`.venv`), otherwise with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from served import served

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

VARIABLE: Final = "PUSHBACKD_FUNCTIONAL_TESTS"
ABSENT: Final = f"the public functional tests are absent: set {VARIABLE} to a checkout of them"
REVISION: Final = "935605ab"
"""The revision of the suite whose numbers the page has."""
PAGE: Final = Path(__file__).parents[2] / "docs" / "ANSWERS.md"

_TESTS: Final = "documentdb_tests/compatibility/tests"
_PLUGINS: Final = Path(__file__).parent / "suite_plugins"
_DEPLOYMENTS: Final = {"standalone": (), "replica set": ("--replSet", "rs0", "--members", "1")}
_SEARCH: Final = frozenset({"search", "searchMeta", "vectorSearch"})
"""Stages that need a search process beside a server: ours answers as a server without one."""
_DEEP: Final = frozenset({"core/operator", "core/query_and_write", "system/administration"})
"""Areas of which each folder is a row."""
_OURS: Final = "pushbackd"


@dataclass(frozen=True)
class Place:
    """Where a table stands in the page."""

    name: str

    @property
    def begin(self) -> str:
        """The line before the table."""
        return f"<!-- {self.name}: begin -->\n"

    @property
    def end(self) -> str:
        """The line after it."""
        return f"<!-- {self.name}: end -->\n"

    def text(self, page: str) -> str:
        """Return the table that a page has. Raises `ValueError` for a page without the two lines."""
        return self._parts(page)[1]

    def filled(self, page: str, table: str) -> str:
        """Return the page with another table. Raises `ValueError` for a page without the two lines."""
        before, _old, after = self._parts(page)
        return f"{before}{self.begin}{table}{self.end}{after}"

    def _parts(self, page: str) -> tuple[str, str, str]:
        before, begin, rest = page.partition(self.begin)
        table, end, after = rest.partition(self.end)
        if not begin or not end:
            raise ValueError(f"the page has no marks around its table of {self.name}")
        return before, table, after


AREAS: Final = Place("areas")
PEERS: Final = Place("peers")


@dataclass(frozen=True)
class Outcome:
    """What became of one case: its area, the deployment, and whether it answered as a real server.

    A deployment is one of ours, or the name of another project's server.
    """

    area: str
    deployment: str
    passed: bool


Table = dict[tuple[str, str], tuple[int, int]]
"""Cases that passed, and all cases, by area and deployment."""


def find_checkout(environment: str | None = None) -> Path | None:
    """Return the folder of the suite, None where there is none."""
    named = environment if environment is not None else os.environ.get(VARIABLE, "")
    folder = Path(named)
    return folder if named and (folder / _TESTS).is_dir() else None


def area_of(case: str) -> str | None:
    """Return the area of a case by its id, None for one that needs a search process."""
    folders = case.partition("::")[0].partition("compatibility/tests/")[2].split("/")[:-1]
    if not _SEARCH.isdisjoint(folders):
        return None
    depth = 3 if "/".join(folders[:2]) in _DEEP else 2
    return "/".join(folders[:depth])


def outcomes(
    checkout: Path,
    folders: Sequence[str] = (),
    workers: int = 2,
    deployments: Iterable[str] = tuple(_DEPLOYMENTS),
) -> Iterator[Outcome]:
    """Run the suite, or folders of it, on deployments of ours; yield what became of the cases."""
    suite = Suite(checkout, folders, workers)
    for name in deployments:
        with served("--port", "0", "--profile", "8.2", *_DEPLOYMENTS[name]) as uri:
            yield from suite.outcomes(name, uri)


def beside(suite: Suite, servers: Mapping[str, str]) -> Iterator[Outcome]:
    """Run the suite on a standalone of ours and on servers, by their names and addresses."""
    with served("--port", "0", "--profile", "8.2") as uri:
        for name, address in {_OURS: uri, **servers}.items():
            yield from suite.outcomes(name, address)


@dataclass(frozen=True)
class Suite:
    """The suite, or folders of it, and how it is run: so many processes, and one case in `every`."""

    checkout: Path
    folders: Sequence[str] = ()
    workers: int = 2
    every: int = 1

    def outcomes(self, name: str, uri: str) -> Iterator[Outcome]:
        """Run it on a server; yield what became of the cases."""
        direct = f"mongodb://{uri.removeprefix('mongodb://').partition('/')[0]}/?directConnection=true"
        with TemporaryDirectory() as made:
            report = Path(made) / "report.json"
            self._run(direct, report)
            for case in json.loads(report.read_text())["tests"]:
                area = area_of(case["nodeid"])
                if area is not None and case["outcome"] in {"passed", "failed", "error"}:
                    yield Outcome(area, name, case["outcome"] == "passed")

    def _run(self, uri: str, report: Path) -> None:
        own = self.checkout / ".venv" / "bin" / "python"
        command = [str(own) if own.exists() else sys.executable, "-m", "pytest"]
        command += [f"{_TESTS}/{folder}" for folder in self.folders or [""]]
        command += ["-q", "-n", str(self.workers), "-p", "no:cacheprovider", "--tb=no"]
        command += ["-p", "sampled", "--engine-name", "mongodb", "--connection-string", uri]
        command += ["--json-report", f"--json-report-file={report}"]
        variables = os.environ | {"PYTHONPATH": str(_PLUGINS), "SAMPLED": str(self.every)}
        ended = subprocess.run(
            command, cwd=self.checkout, env=variables, stdout=subprocess.DEVNULL, check=False
        )
        if ended.returncode not in (0, 1, 5):  # 1: cases failed, 5: none is for this deployment
            raise RuntimeError(f"the functional tests did not run: exit code {ended.returncode}")


def counted(found: Iterable[Outcome]) -> Table:
    """Return what passed of all, by area and deployment."""
    table: Table = {}
    for each in found:
        passed, total = table.get((each.area, each.deployment), (0, 0))
        table[each.area, each.deployment] = passed + each.passed, total + 1
    return table


def rows(table: Table, columns: Iterable[str] = tuple(_DEPLOYMENTS)) -> str:
    """Return the table as the page has it, a column for each deployment, with a sum in its last row."""
    names = tuple(columns)
    head = ["area", *(f"{name}{_PASSED}" for name in names)]
    lines = [f"| {' | '.join(head)} |", f"|---{'|---:' * len(names)}|"]
    for area in sorted({area for area, _ in table}):
        cells = (_cell(*table.get((area, name), (0, 0))) for name in names)
        lines.append(f"| `{area}` | {' | '.join(cells)} |")
    if table:
        cells = (_cell(*_sum(table, name)) for name in names)
        lines.append(f"| **all** | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _sum(table: Table, deployment: str) -> tuple[int, int]:
    counts = [count for (_area, name), count in table.items() if name == deployment]
    return sum(passed for passed, _ in counts), sum(total for _, total in counts)


def _cell(passed: int, total: int) -> str:
    # Rounded down: 100.0 means that all pass.
    return f"{passed} of {total}, {passed * 1000 // total / 10}" if total else "none"


def table_of(text: str) -> Table:
    """Return the table whose text stands in the page."""
    names: list[str] = []
    table: Table = {}
    for line in text.splitlines():
        first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        names = names or [cell.removesuffix(_PASSED) for cell in cells]
        for name, cell in zip(names, cells, strict=True):
            counts = _COUNTS.match(cell)
            if counts is not None and first.startswith("`"):
                table[first.strip("`"), name] = (int(counts[1]), int(counts[2]))
    return table


_PASSED: Final = ": passed of all, %"
_COUNTS: Final = re.compile(r"(\d+) of (\d+)")


def replaced(was: Table, now: Table, folders: Sequence[str] = ()) -> Table:
    """Return the table with the areas that were run as a whole; a part of an area says nothing of it."""
    return was | {key: count for key, count in now.items() if not folders or _is_within(key[0], folders)}


def _is_within(area: str, folders: Sequence[str]) -> bool:
    return any(f"{area}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


def worse(was: Table, now: Table) -> list[str]:
    """Return where a new table says less than the old one: area, deployment, what is and what was."""
    return [
        f"{area}: {_cell(*now[area, name])} on a {name}, not {_cell(passed, total)}"
        for (area, name), (passed, total) in was.items()
        if (area, name) in now and now[area, name][0] * total < passed * now[area, name][1]
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite and print its table; exit code 2 where it is absent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="*", help="folders of the suite, such as core/cursors; all without")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes that send (2)")
    parser.add_argument("--on", choices=_DEPLOYMENTS, action="append", help="a deployment; all without")
    parser.add_argument("--server", action="append", metavar="NAME=URI", help="one of another project")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one case in N, by their ids (1)")
    given: Any = parser.parse_args(arguments)
    checkout = find_checkout()
    if checkout is None:
        sys.stderr.write(f"{ABSENT}\n")
        return 2
    page = PAGE.read_text()
    if given.server:
        servers = dict(each.split("=", 1) for each in given.server)
        suite = Suite(checkout, given.folders, given.workers, given.every)
        place, text = PEERS, rows(counted(beside(suite, servers)), (_OURS, *servers))
    else:
        now = counted(outcomes(checkout, given.folders, given.workers, given.on or _DEPLOYMENTS))
        place, text = AREAS, rows(replaced(table_of(AREAS.text(page)), now, given.folders))
    sys.stdout.write(text)
    PAGE.write_text(place.filled(page, text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
