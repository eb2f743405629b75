"""How the cost of a request grows: with connections, documents and members, and with what the journal keeps.

`python -m benchmarks.growth` starts a fake server in a process of its own for each size, and prints the CPU
time of that process per request, the least of some rounds, as tables in Markdown. `--plot FILE` draws them.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import fakeserver
from benchmarks.raw_client import RawClient, encoded
from benchmarks.scale import allow_files
from benchmarks.server_cpu import WORKLOADS, Contestant, contestant, measure, serve
from harness.report.pages import chart
from harness.report.pages.chart import Bars, Line, Panel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from multiprocessing.connection import Connection

    from benchmarks.server_cpu import Workload

_BY_NAME: Final = {workload.name: workload for workload in WORKLOADS}
_PING: Final = _BY_NAME["ping"]
_INSERT: Final = _BY_NAME["insert_one"]
_COLLECTION: Final = "grown"
_BATCH: Final = 10_000
_FEW_CONNECTIONS: Final = 16
_KIB: Final = 1024
_MANY: Final = 1000
"""So many of a thing outweigh all else: ten times as many for documents, which the journal has as well."""
_EACH: Final = "KiB each"
CONNECTIONS: Final = (1, 10, 100, 1000, 5000)
DOCUMENTS: Final = (10, 100, 1000, 10_000, 100_000, 1_000_000)
MEMBERS: Final = (1, 3, 7, 20, 50)
JOURNALS: Final = ("as it is", "without messages", "one record", "in a file, too")


class Sizes(NamedTuple):
    """What is measured, and how often."""

    rounds: int
    requests: int
    connections: tuple[int, ...] = CONNECTIONS
    documents: tuple[int, ...] = DOCUMENTS
    members: tuple[int, ...] = MEMBERS


def serve_deployment(pipe: Connection, *, members: int = 0, **settings: Any) -> None:
    """Run a standalone server, or a replica set of so many members, in this process."""
    make = (
        partial(fakeserver.ClusterSpec.replica_set, members) if members else fakeserver.ClusterSpec.standalone
    )
    serve(pipe, make(**settings))


def _least(server: Contestant, workloads: Iterable[Workload], sizes: Sizes) -> dict[str, float]:
    """Return the least cost of each kind of request, in microseconds."""
    return {
        workload.name: min(measure(server, workload, sizes.requests).cpu_us for _ in range(sizes.rounds))
        for workload in workloads
    }


def _memory(server: Contestant, before: int, count: int, many: int = _MANY) -> dict[str, float | None]:
    """Return what each of many takes, in KiB; of few, other memory would be counted as theirs."""
    return {_EACH: (server.usage().memory - before) / count / _KIB if count >= many else None}


def connections(sizes: Sizes) -> dict[str, dict[str, float | None]]:
    """Measure pings by the number of connections, all of which are busy."""
    rows: dict[str, dict[str, float | None]] = {}
    allowed = allow_files(max(sizes.connections))
    for count in sizes.connections:
        with contestant("growth", serve_deployment, 1) as server:
            idle = server.usage().memory
            client = RawClient(server.client.address, min(count, allowed))
            try:
                crowd = Contestant(server.name, server.pipe, client)
                row = _least(crowd, [_PING], sizes._replace(requests=max(sizes.requests, count)))
                rows[f"{count:,}"] = {**row, **_memory(server, idle, count)}
            finally:
                client.close()
    return rows


def _fill(server: Contestant, start: int, stop: int) -> None:
    for first in range(start, stop, _BATCH):
        numbers = range(first, min(first + _BATCH, stop))
        batch = [{"_id": n, "name": "Ada", "tags": ["a", "b"], "n": n} for n in numbers]
        server.client.command({"insert": _COLLECTION, "documents": batch, "$db": "benchmark"})


def _among(count: int) -> list[Workload]:
    """Return the requests to a collection of so many documents, which they leave as large as it was."""

    def always(command: dict[str, Any]) -> Callable[[], Callable[[], bytes]]:
        message = encoded({**command, "$db": "benchmark"})
        return lambda: lambda: message

    one = {"_id": count // 2}
    add = {"q": one, "u": {"$inc": {"n": 1}}}
    kind = type(_PING)
    return [
        kind("find_one", always({"find": _COLLECTION, "filter": one, "limit": 1, "singleBatch": True})),
        kind("update_one", always({"update": _COLLECTION, "updates": [add]})),
        _INSERT,
    ]


def documents(sizes: Sizes) -> dict[str, dict[str, float | None]]:
    """Measure requests by `_id`, and an insert beside them, by the number of documents; one server grows."""
    rows: dict[str, dict[str, float | None]] = {}
    with contestant("growth", serve_deployment, _FEW_CONNECTIONS) as server:
        before, filled = server.usage().memory, 0
        for count in sizes.documents:
            _fill(server, filled, count)
            filled = count
            row = _least(server, _among(count), sizes)
            rows[f"{count:,}"] = {**row, **_memory(server, before, count, many=10 * _MANY)}
    return rows


def members(sizes: Sizes) -> dict[str, dict[str, float]]:
    """Measure pings and inserts at the primary by the number of members."""
    rows = {}
    for count in sizes.members:
        target = partial(serve_deployment, members=count)
        with contestant("growth", target, _FEW_CONNECTIONS) as server:
            rows[f"{count:,}"] = _least(server, [_PING, _INSERT], sizes)
    return rows


def journals(sizes: Sizes) -> dict[str, dict[str, float]]:
    """Measure pings and inserts by what the journal keeps."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, dict[str, Any]] = dict(
            zip(
                JOURNALS,
                (
                    {},
                    {"journal_bytes": 0},
                    {"journal_bytes": 0, "journal_records": 1},
                    {"journal_file": str(Path(folder) / "journal")},
                ),
                strict=True,
            )
        )
        for name, own in settings.items():
            with contestant("growth", partial(serve_deployment, **own), _FEW_CONNECTIONS) as server:
                rows[name] = _least(server, [_PING, _INSERT], sizes)
    return rows


def run(sizes: Sizes) -> dict[str, Any]:
    """Measure everything and return a report made of numbers and names."""
    return {
        "python": platform.python_version(),
        "rounds": sizes.rounds,
        "requests": sizes.requests,
        "growth": {
            "connections": connections(sizes),
            "documents": documents(sizes),
            "members": members(sizes),
            "journal": journals(sizes),
        },
    }


def table(report: dict[str, Any]) -> str:
    """Return a report as text, with its tables in Markdown."""
    setting = f"the least of {report['rounds']} rounds of {report['requests']} requests"
    lines = [f"Python {report['python']}, CPU in µs per request, {setting}"]
    for what, rows in report["growth"].items():
        names = list(next(iter(rows.values())))
        lines += ["", f"| {what} | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
        lines += [
            f"| {size} | " + " | ".join(_cell(row[name]) for name in names) + " |"
            for size, row in rows.items()
        ]
    return "\n".join(lines)


def _cell(number: float | None) -> str:
    return "-" if number is None else f"{number:.1f}"


def plot(report: dict[str, Any]) -> str:
    """Return the SVG of the costs: a panel for what grows, and one of bars for the journal."""
    growth = report["growth"]
    panels: list[Panel | Bars] = [
        Panel(
            title=f"Requests by {what}",
            x=what,
            y="µs of CPU",
            lines=_lines(growth[what]),
            x_kind="log",
        )
        for what in ("connections", "documents", "members")
    ]
    rows = growth["journal"]
    panels.append(
        Bars(
            title="What the journal keeps",
            x="µs of CPU",
            names=list(rows),
            series=[
                (name, [(row[name], f"{row[name]:.1f}") for row in rows.values()])
                for name in ("ping", "insert_one")
            ],
        )
    )
    return chart.file(panels, title="CPU time per request", columns=2)


def _lines(rows: dict[str, dict[str, float | None]]) -> list[Line]:
    names = [name for name in next(iter(rows.values())) if name != _EACH]
    return [
        Line(
            name,
            [(int(size.replace(",", "")), row[name] or 0.0) for size, row in rows.items()],
            chart.SERIES[number],
            dash=number,
            dots=True,
        )
        for number, name in enumerate(names)
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000, help="requests of each round, at least")
    for name, sizes in (("connections", CONNECTIONS), ("documents", DOCUMENTS), ("members", MEMBERS)):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=list(sizes))
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the costs, as SVG")
    options = parser.parse_args(arguments)
    report = run(
        Sizes(
            options.rounds,
            options.requests,
            tuple(options.connections),
            tuple(options.documents),
            tuple(options.members),
        )
    )
    print(json.dumps(report, indent=2) if options.json else table(report))
    if options.plot is not None:
        options.plot.write_text(plot(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
