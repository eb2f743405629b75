"""How long one request holds up all others: the longest step of each operator, stage, command and index.

`python -m benchmarks.stalls` sends each of the large inputs (`benchmarks.large_inputs`) to a server in this
process, and measures the CPU time between two yield points, and how late `maxTimeMS` and `killOp` are heard.
It prints the longest step of each kind, and what is over the bound of 50 ms. `--size` is the number of
elements and documents, `--only` a part of the names of cases, `--slowest` how many are listed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Int64

import fakeserver
from benchmarks.large_documents import DB, Case, many, one
from benchmarks.large_inputs import cases
from benchmarks.large_requests import Client, encoded
from fakeserver.deployment.garbage import collected_when_idle
from fakeserver.waiting.interrupts import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    Document = dict[str, Any]

BOUND: Final = 0.050
_SIZE: Final = 100_000
_BATCH: Final = 10_000


class Steps:
    """The steps of the requests of this process: CPU seconds between two yield points, or to an end."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.ended_at = ""
        """Where the longest step ended, as a few lines of the stack."""
        self._began = 0.0
        self._is_on = False

    def begin(self) -> None:
        """Begin a step."""
        self._began = time.thread_time()
        self._is_on = True

    def end(self) -> None:
        """End a step, and begin the next one."""
        if not self._is_on:
            return
        now = time.thread_time()
        if now - self._began > self.longest:
            self.longest = now - self._began
            self.ended_at = " < ".join(
                f"{each.name}:{each.lineno}"
                for each in traceback.extract_stack(sys._getframe(2), 6)[::-1]  # noqa: SLF001
            )
        self._began = time.thread_time()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Measure what the event loop calls, and what lies between its yield points, inside."""
        run, check = asyncio.Handle._run, Worker.check  # noqa: SLF001
        steps = self

        def run_watched(handle: Any) -> None:
            steps.begin()
            try:
                run(handle)
            finally:
                steps.end()

        def check_watched(worker: Worker) -> None:
            steps.end()
            check(worker)
            steps.begin()

        asyncio.Handle._run = run_watched  # type: ignore[method-assign,assignment]  # noqa: SLF001
        Worker.check = check_watched  # type: ignore[method-assign,assignment]
        self.begin()
        try:
            yield
        finally:
            self.end()
            self._is_on = False
            asyncio.Handle._run = run  # type: ignore[method-assign]  # noqa: SLF001
            Worker.check = check  # type: ignore[method-assign]


class Row(NamedTuple):
    """One case, in seconds of CPU: the longest step, the whole, and how late its end was heard of.

    `late` is how long it went on after its `maxTimeMS`, `killed` after a `killOp`.
    """

    case: Case
    longest: float
    ended_at: str
    took: float
    answer: str
    late: float = 0.0
    killed: float = 0.0

    @property
    def worst(self) -> float:
        """The figure that the bound is about."""
        return max(self.longest, self.late, self.killed)


class Bench:
    """A server with the collections that the cases are about."""

    def __init__(self, cluster: Any, size: int) -> None:
        self.size = size
        self.client = Client(cluster.nodes[0])
        self.other = Client(cluster.nodes[0])

    async def fill(self) -> None:
        """Insert the documents of all collections."""
        size = self.size
        await self._insert("many", list(many(size)))
        await self._insert("writes", list(many(size // 10)))
        await self._insert("hundred", list(many(100)))
        await self._insert("one", [one(size)])
        texts = [{"_id": n, "t": f"common word{n} word{n % 500}"} for n in range(size // 4)]
        await self._insert("texts", [*texts, {"_id": -1, "t": " ".join(f"word{n}" for n in range(size))}])
        await self._insert("places", [{"_id": each["_id"], "p": each["p"]} for each in many(size // 4)])

    async def _insert(self, name: str, documents: list[Document]) -> None:
        for start in range(0, len(documents), _BATCH):
            await self.client.command(
                {"insert": name, "$db": DB}, documents=documents[start : start + _BATCH]
            )

    async def measure(self, case: Case) -> Row:
        """Run a case and return its longest step."""
        reply: Document = {}
        for before in case.before:
            reply, _ = await self.client.command(before)
        gc.collect(1)
        steps = Steps()
        command = dict(case.command)
        if "getMore" in command:
            command["getMore"] = Int64(reply["cursor"]["id"])
        data = encoded(command)
        with steps.watched():
            took = await self.client.exchange(data)
        reply = self.client.reply()
        if case.name == "$setOnInsert" or case.kind == "update":
            await self.client.command(
                {"delete": "one", "deletes": [{"q": {"_id": -1}, "limit": 0}], "$db": DB}
            )
        answer = "ok" if reply["ok"] else f"{reply['code']} {reply['errmsg'][:80]}"
        if "writeErrors" in reply:
            answer = f"{reply['writeErrors'][0]['code']} {reply['writeErrors'][0]['errmsg'][:80]}"
        return Row(case, steps.longest, steps.ended_at, took, answer)

    async def lateness(self, row: Row) -> float:
        """Return how long after half of its time a case ends that has so much time only, in CPU seconds."""
        limit = max(int(row.took * 500), 1)
        command = {**row.case.command, "maxTimeMS": limit}
        for each in row.case.before:
            await self.client.command(each)
        _, took = await self.client.command(command)
        return max(took - limit / 1000, 0.0)

    async def killed(self, row: Row) -> float:
        """Return how long a case goes on that is killed after half of its time, in CPU seconds."""
        command = dict(row.case.command)
        for each in row.case.before:
            reply, _ = await self.client.command(each)
            if "getMore" in command:
                command["getMore"] = Int64(reply["cursor"]["id"])
        began = time.process_time()
        running = asyncio.create_task(self.client.command(command))
        while not running.done() and time.process_time() - began < row.took / 2:  # noqa: ASYNC110 - CPU time is no event
            await asyncio.sleep(0)
        reply, _ = await self.other.command({"currentOp": 1, "$db": "admin"})
        others = [each["opid"] for each in reply["inprog"] if "currentOp" not in each.get("command", {})]
        asked = time.process_time()
        for each in others:
            await self.other.command({"killOp": 1, "op": each, "$db": "admin"})
        await running
        return time.process_time() - asked if others else 0.0


async def run(
    size: int,
    wanted: str,
    *,
    late: bool = True,
    shown: bool = False,
    every: int = 1,
    chosen: list[Case] | None = None,
) -> list[Row]:
    """Measure each `every`th of the cases whose names contain `wanted`, or those that are `chosen`.

    `late` measures how late a time limit and a killOp are heard, too; what is over the bound is `shown`.
    """
    rows = []
    tried = [case for case in cases(size) if wanted in str(case)][::every] if chosen is None else chosen
    async with fakeserver.start(fakeserver.ClusterSpec.replica_set(1)) as cluster:
        bench = Bench(cluster, size)
        await bench.fill()
        with collected_when_idle():
            for case in tried:
                row = await bench.measure(case)
                if late and row.took > 2 * BOUND:
                    row = row._replace(late=await bench.lateness(row), killed=await bench.killed(row))
                rows.append(row)
                if shown and row.worst > BOUND:
                    print(line(row), flush=True)
    return rows


def line(row: Row) -> str:
    """Return a row as text."""
    return (
        f"{row.longest * 1000:8.0f}{row.late * 1000:8.0f}{row.killed * 1000:8.0f}{row.took * 1000:8.0f}"
        f"  {row.case}: {row.answer}\n{'':34}{row.ended_at}"
    )


def table(rows: list[Row], slowest: int) -> str:
    """Return a report as text."""
    lines = [f"{'kind':18}{'names':>7}{'cases':>7}{'step':>7}{'late':>7}{'killed':>7}  milliseconds of CPU"]
    for kind in dict.fromkeys(row.case.kind for row in rows):
        of = [row for row in rows if row.case.kind == kind]
        names = len({row.case.name for row in of})
        most = (max(row.longest for row in of), max(row.late for row in of), max(row.killed for row in of))
        lines.append(f"{kind:18}{names:7}{len(of):7}" + "".join(f"{each * 1000:7.0f}" for each in most))
    lines.append(f"\n{'step':>8}{'late':>8}{'killed':>8}{'took':>8}  the longest")
    lines += [line(row) for row in sorted(rows, key=lambda row: -row.worst)[:slowest]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; 1 where a step is over the bound."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=__doc__)
    parser.add_argument("--size", type=int, default=_SIZE, help="elements and documents")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--every", type=int, default=1, help="each so many cases")
    parser.add_argument("--slowest", type=int, default=20, help="cases that are listed")
    options = parser.parse_args(arguments)
    rows = asyncio.run(run(options.size, options.only, every=options.every))
    print(table(rows, options.slowest))
    return int(any(row.worst > BOUND for row in rows))


if __name__ == "__main__":
    sys.exit(main())
