"""What a request costs our server, the least that a server in Python could do, and other projects' servers.

`python -m benchmarks.peers` runs each server in a process of its own, sends all of them the same requests in
alternating rounds over loopback, and prints the CPU time of the server's process per request: the least of
all rounds, since other work on a machine only adds. `minimal` is an `asyncio.Protocol` with `bson` and a
dictionary, `bytes` keeps documents as BSON bytes, on uvloop. The client never sleeps, so that a server that
is slower than it does not sleep either.

Servers of other projects are installed by pip, in a virtual environment made for each of them; one that
cannot be installed is left out, and said so.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import fakeserver
from benchmarks.bytes_server import BytesProtocol, BytesServer
from benchmarks.limited import ENOUGH_TOKENS, NO_TOKENS, Control, serve_limited, serve_limited_on_uvloop
from benchmarks.peer_projects import PROJECTS, UnavailableError, peer
from benchmarks.raw_client import encoded
from benchmarks.server_cpu import (
    FILL_MANY,
    WORKLOADS,
    Workload,
    contestant,
    measure,
    serve,
    serve_fake,
    serve_minimal,
    serve_protocol,
)
from mongowire.system import fast_loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from benchmarks.server_cpu import Contestant, Sample

_MANY: Final = 100
_FEWER: Final = 10
"""Servers of other projects get one request for so many of the others': some take milliseconds for each."""


# The servers of this repository.


def serve_fake_on_uvloop(pipe: Connection) -> None:
    """Run a standalone fake server on uvloop in this process."""
    serve(pipe, fakeserver.ClusterSpec.standalone(), loop_factory=fast_loop())


def serve_bytes(pipe: Connection) -> None:
    """Run the server that keeps bytes in this process."""
    server = BytesServer()
    serve_protocol(pipe, lambda: BytesProtocol(server), fast_loop())


OURS: Final[dict[str, Callable[[Connection], None]]] = {
    "ours": serve_fake,
    "ours, uvloop": serve_fake_on_uvloop,
    "minimal": serve_minimal,
    "bytes": serve_bytes,
}
_LIMITED: Final = {"ours": serve_limited, "ours, uvloop": serve_limited_on_uvloop}
_ON_UVLOOP: Final = frozenset({"ours, uvloop", "bytes"})


# The requests.


class Reply(NamedTuple):
    """What a right reply to a request has: a field, and its value or the length of its batch."""

    field: str
    value: float


_REPLIES: Final = {
    "ping": Reply("ok", 1),
    "find_one": Reply("cursor", 1),
    "insert_one": Reply("n", 1),
    "update_one": Reply("n", 1),
    "find 100": Reply("cursor", _MANY),
}
_FIND_MANY: Final = encoded(
    {"find": "found", "filter": {}, "limit": _MANY, "singleBatch": True, "$db": "benchmark"}
)
_BY_NAME: Final = {workload.name: workload for workload in WORKLOADS}
REQUESTS: Final = (
    *(_BY_NAME[name] for name in ("ping", "find_one", "insert_one", "update_one")),
    Workload(
        "find 100",
        lambda: lambda: _FIND_MANY,
        (FILL_MANY,),
        ({"drop": "found", "$db": "benchmark"},),
    ),
)
REJECTION: Final = "rejection"


class Bound(NamedTuple):
    """The most that a request may cost us, as a multiple of what one costs another server."""

    request: str
    server: str
    beside: str
    their_request: str
    most: float


BOUNDS: Final = (
    Bound("ping", "ours", "minimal", "ping", 1.8),
    Bound("find_one", "ours", "minimal", "find_one", 2.2),
    Bound("insert_one", "ours", "minimal", "insert_one", 2.5),
    Bound("find 100", "ours", "minimal", "find 100", 0.6),
    Bound(REJECTION, "ours", "minimal", "ping", 0.9),
    Bound("ping", "ours, uvloop", "bytes", "ping", 2.2),
    Bound("find_one", "ours, uvloop", "bytes", "find_one", 3.0),
    Bound("insert_one", "ours, uvloop", "bytes", "insert_one", 4.0),
    Bound("find 100", "ours, uvloop", "bytes", "find 100", 2.0),
)


# The run.


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rounds: int
    requests: int
    connections: int


def _wrong(server: Contestant, workload: Workload) -> str | None:
    """Return what is wrong with a server's answer, if anything is: who does not answer is fast at nothing."""
    try:
        for command in workload.before:
            server.client.command(command)
        reply = server.client.exchange(workload.messages()())
        for command in workload.after:
            server.client.command(command)
    except OSError:
        return f"no answer to {workload.name}"
    wanted = _REPLIES[workload.name]
    value = reply.get(wanted.field)
    count = len(value["firstBatch"]) if isinstance(value, dict) else value
    return None if reply.get("ok") == 1 and count == wanted.value else f"{workload.name}: {reply}"


def _all_servers(
    stack: ExitStack, sizes: Sizes, folder: Path | None, skipped: dict[str, str]
) -> list[Contestant]:
    servers = []
    for name, serve_it in OURS.items():
        if name in _ON_UVLOOP and fast_loop() is None:
            skipped[name] = "uvloop is not installed"
        else:
            servers.append(stack.enter_context(contestant(name, serve_it, sizes.connections)))
    for project in PROJECTS if folder is not None else ():
        assert folder is not None
        try:
            servers.append(stack.enter_context(peer(project, folder, sizes.connections)))
        except UnavailableError as reason:
            skipped[project.name] = str(reason)
    return servers


def _sound(servers: list[Contestant], skipped: dict[str, str]) -> list[Contestant]:
    """Return the servers that answer rightly. Raises `RuntimeError` if one of ours does not."""
    sound = []
    for server in servers:
        wrong = next(filter(None, (_wrong(server, workload) for workload in REQUESTS)), None)
        if wrong is None:
            sound.append(server)
        elif server.name in OURS:
            raise RuntimeError(f"{server.name} answers {wrong}")
        else:
            skipped[server.name] = wrong
    return sound


def _round(servers: list[Contestant], sizes: Sizes, samples: dict[tuple[str, str], list[Sample]]) -> None:
    for workload in REQUESTS:
        for server in servers:
            requests = sizes.requests if server.name in OURS else max(sizes.requests // _FEWER, 1)
            samples.setdefault((workload.name, server.name), []).append(measure(server, workload, requests))


def _reject(server: Contestant, sizes: Sizes, samples: dict[tuple[str, str], list[Sample]]) -> None:
    control = Control(server.client.address)
    try:
        control.set(NO_TOKENS)
        sample = measure(server, REQUESTS[0], sizes.requests)
        control.set(ENOUGH_TOKENS)
    finally:
        control.close()
    samples.setdefault((REJECTION, server.name), []).append(sample)


def run(sizes: Sizes, folder: Path | None) -> dict[str, Any]:
    """Measure everything and return a report made of numbers and names.

    `folder` keeps the environments of other projects; without one, they are left out.
    """
    samples: dict[tuple[str, str], list[Sample]] = {}
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        servers = _sound(_all_servers(stack, sizes, folder, skipped), skipped)
        limited = [
            stack.enter_context(contestant(name, serve_it, sizes.connections))
            for name, serve_it in _LIMITED.items()
            if name not in skipped
        ]
        for _ in range(sizes.rounds):
            _round(servers, sizes, samples)
            for server in limited:
                _reject(server, sizes, samples)
    least = {key: min(rows, key=lambda sample: sample.cpu_us) for key, rows in samples.items()}
    names = [server.name for server in servers]
    requests = [*(workload.name for workload in REQUESTS), REJECTION]
    return {
        "python": platform.python_version(),
        "rounds": sizes.rounds,
        "requests": sizes.requests,
        "connections": sizes.connections,
        "servers": names,
        "skipped": skipped,
        "cpu_us": {r: {s: least[r, s].cpu_us for s in names if (r, s) in least} for r in requests},
        "sleeps": {r: {s: least[r, s].sleeps for s in names if (r, s) in least} for r in requests},
        "bounds": [_held(bound, least) for bound in BOUNDS if (bound.request, bound.server) in least],
    }


def _held(bound: Bound, least: dict[tuple[str, str], Sample]) -> dict[str, Any]:
    ours = least[bound.request, bound.server].cpu_us
    ratio = ours / max(least[bound.their_request, bound.beside].cpu_us, 1e-3)
    return {**bound._asdict(), "ratio": ratio, "holds": ratio <= bound.most}


def table(report: dict[str, Any]) -> str:
    """Return a report as text, with its tables in Markdown."""
    servers = report["servers"]
    setting = (
        f"Python {report['python']}, {report['connections']} connections, "
        f"the least of {report['rounds']} rounds of {report['requests']} requests"
    )
    lines = [
        setting,
        "",
        "| server CPU, µs | " + " | ".join(servers) + " |",
        "|---|" + "---|" * len(servers),
    ]
    for request, row in report["cpu_us"].items():
        cells = (f"{row[server]:.1f}" if server in row else "-" for server in servers)
        lines.append(f"| {request} | " + " | ".join(cells) + " |")
    lines += ["", "| request | ratio | wanted | |", "|---|---|---|---|"]
    for bound in report["bounds"]:
        theirs = bound["beside"]
        if bound["their_request"] != bound["request"]:
            theirs += f"'s {bound['their_request']}"
        lines.append(
            f"| {bound['request']}, {bound['server']} to {theirs} | {bound['ratio']:.2f} "
            f"| ≤ {bound['most']} | {'' if bound['holds'] else 'missed'} |"
        )
    lines += [f"\nleft out: {name}: {reason}" for name, reason in report["skipped"].items()]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=3000, help="requests of each round")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--alone", action="store_true", help="leave out the servers of other projects")
    parser.add_argument(
        "--environments",
        type=Path,
        default=Path(gettempdir()) / "pushbackd-peers",
        help="the folder of their virtual environments, which are kept for the next run",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    sizes = Sizes(options.rounds, options.requests, options.connections)
    report = run(sizes, None if options.alone else options.environments)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
