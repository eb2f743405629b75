"""A served deployment: it runs until a signal ends it, or whoever holds its control."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fakeserver
from fakeserver.control.control import DistantControl
from fakeserver.control.listener import ControlListener
from fakeserver.control.registry import Registry, RegistryEntry
from fakeserver.deployment.garbage import collect_when_idle
from fakeserver.deployment.spec import ClusterSpec, Topology

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from types import FrameType
    from typing import TextIO

    from fakeserver.control.scenario.model import Scenario
    from fakeserver.deployment.cluster import Cluster


# What `serve` tells people at a terminal, where its log would hide it: the URI, the page, how to end.
#
# Standard output has the connection string and nothing else, at a terminal as in a pipe.


_WITHOUT_LINKS: Final = frozenset({"", "dumb", "unknown", "linux", "vt100"})
_SEVERITIES: Final = ('"s": "E"', '"s": "F"')


def is_watched() -> bool:
    """Return whether somebody looks at standard error."""
    return sys.stderr.isatty()


def errors_only(write: Callable[[str], None]) -> Callable[[str], None]:
    """Return what writes a line of the log if it tells of an error."""

    def write_error(line: str) -> None:
        if any(severity in line for severity in _SEVERITIES):
            write(line)

    return write_error


def link(url: str) -> str:
    """Return a URL that can be clicked (OSC 8), or as it is where the terminal cannot show such links."""
    if os.environ.get("TERM", "") in _WITHOUT_LINKS:
        return url
    return f"\x1b]8;;{url}\x1b\\{url}\x1b]8;;\x1b\\"


def told(page: str, server_id: str) -> list[str]:
    """Return the lines below the connection string, of a server that may have a page and an id."""
    elsewhere = f" or `pushbackd stop {server_id}`" if server_id else ""
    return [
        f"page: {link(page)}" if page else "page: none; --ui 8080 serves one",
        f"Ctrl-C{elsewhere} ends it; -v shows its log",
    ]


_SEVERITIES_OF_QUIET: Final = ('"s": "W"', '"s": "E"', '"s": "F"')


@contextmanager
def log_output(
    path: str = "", *, append: bool = False, syslog: bool = False, quiet: bool = False
) -> Iterator[Callable[[str], None]]:
    """Give the function that writes a line of the log. Raises `OSError` for a file that cannot be written."""
    with ExitStack() as stack:
        write: Callable[[str], None] = to_stderr
        if syslog:
            write = _to_syslog()
        elif path:
            write = _to_file(stack.enter_context(Path(path).open("a" if append else "w", encoding="utf-8")))
        yield _only_warnings(write) if quiet else write


def to_stderr(line: str) -> None:
    """Write a line of the log. A closed or full standard error does not end the server."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        drop_stderr()
    except OSError:
        return  # the next line may find room


def drop_stderr() -> None:
    """Discard everything from now on: the interpreter flushes at its end, and would fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
        os.close(nowhere)


def _to_file(file: TextIO) -> Callable[[str], None]:
    def write(line: str) -> None:
        with suppress(OSError):  # a full disk does not end the server
            file.write(line + "\n")
            file.flush()

    return write


def _to_syslog() -> Callable[[str], None]:
    try:
        import syslog  # noqa: PLC0415 - not on every system
    except ImportError:
        raise OSError("--syslog: this system has no system log") from None
    return syslog.syslog


def _only_warnings(write: Callable[[str], None]) -> Callable[[str], None]:
    def write_warning(line: str) -> None:
        if any(severity in line for severity in _SEVERITIES_OF_QUIET):
            write(line)

    return write_warning


_TOKEN_BYTES: Final = 24
_LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Serving:
    """What a deployment is served with.

    `control` is the kind of its control listener, None for a Unix socket where the system and the registry's
    folder allow one. `id` is its id in the registry, "" for a fresh one; `log` the file of its log.
    """

    control: str | None = None
    id: str = ""
    log: Callable[[str], None] = to_stderr
    log_file: str = ""
    ignored: Sequence[str] = ()
    ui: int | None = None
    """The port of the live page, None for no page."""
    unix_folder: str = ""
    """The folder for Unix sockets of the servers, "" for none."""
    for_people: bool = False
    """Whether lines below the connection string say the rest, as somebody watches and no log is shown."""
    tells_verdict: bool = False
    """Whether the verdict on a scenario goes to standard error at the end, besides to the log."""


async def serve(spec: ClusterSpec | Scenario, serving: Serving) -> None:
    """Run a deployment until a signal arrives, which may be before the first server listens.

    The connection string is printed when clients can write. Raises `OSError` when a port is taken, and
    `CommandError` for a parameter that a server would refuse.
    """
    stop = _stop_signal()
    async with _controlled(spec, serving, stop) as (cluster, page, server_id):
        cluster.spawn(collect_when_idle(cluster))
        while not _is_writable(cluster) and not stop.is_set():
            await cluster.clock.sleep_until(cluster.clock.now() + _LOOK_SECONDS)
        sys.stdout.write(cluster.uri + "\n")
        sys.stdout.flush()
        for line in told(page, server_id) if serving.for_people else ():
            to_stderr(line)
        await stop.wait()
        if not isinstance(spec, ClusterSpec):
            _tell_verdict(cluster, server_id, aloud=serving.tells_verdict)


def _tell_verdict(cluster: Cluster, server_id: str, *, aloud: bool) -> None:
    """Log what became of a scenario; `aloud` for readers as well."""
    verdict = dict(cluster.control.perform("verdict"))
    lines = verdict.pop("lines")
    if server_id and (not verdict["asExpected"] or verdict["operations"]["errors"]):
        with suppress(OSError):
            made = DistantControl(cluster.control.perform).trace_page(server_id)
            page = Registry().keep_trace(server_id, made)
            verdict["trace"] = str(page)
            lines = [*lines, f"  trace: {page}"]
    log = cluster.servers[0].log
    log.write("CONTROL", _VERDICT, "Verdict on the scenario", context="scenario", attr=verdict)
    for line in lines if aloud else ():
        to_stderr(line)


_VERDICT: Final = 9000003


def _is_writable(cluster: Cluster) -> bool:
    return cluster.primary is not None and all(shard.primary is not None for shard in cluster.shards)


@asynccontextmanager
async def _controlled(
    spec: ClusterSpec | Scenario, serving: Serving, stop: asyncio.Event
) -> AsyncIterator[tuple[Cluster, str, str]]:
    """Run a deployment with its control listener, which is the last to close: who ends it sees the end.

    Give the deployment, the address of its page and its id in the registry, "" for none.
    """
    door: _Door | None = None
    try:
        async with fakeserver.start(spec, log_sink=serving.log) as cluster:
            _announce(cluster, serving.ignored)
            await _listen_on_unix_sockets(cluster, serving.unix_folder)
            page = "" if serving.ui is None else await _serve_ui(cluster, serving)
            if serving.control != "none":
                door = await _open_door(cluster, serving, stop, page)
            yield cluster, page, door.id if door else ""
    finally:
        if door is not None:
            await door.close()


@dataclass(frozen=True, slots=True)
class _Door:
    """The control listener of a deployment, and its entry in the registry."""

    listener: ControlListener
    registry: Registry
    id: str

    async def close(self) -> None:
        self.registry.remove(self.id)
        await self.listener.aclose()


async def _open_door(cluster: Cluster, serving: Serving, stop: asyncio.Event, page: str) -> _Door | None:
    """Open the control listener and enter the deployment into the registry.

    Raises `OSError`; where no control was asked for, that is a line of the log, and None is returned.
    """
    registry = Registry()
    topology = str(cluster.spec.topology)
    name = serving.id or registry.fresh_id(topology)
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    about: dict[str, Any] = {"id": name, "pid": os.getpid(), "uri": cluster.uri, "topology": topology}
    about["variables"] = environment_of(cluster)
    listener = ControlListener(cluster, token, about=about, shut_down=stop.set)
    try:
        registry.prepare()
        await _listen(listener, registry.socket_file(name), serving.control)
        started = datetime.fromtimestamp(cluster.clock.utc(), UTC).isoformat(timespec="seconds")
        how = (listener.address, token, serving.log_file, started, page)
        registry.write(RegistryEntry(name, os.getpid(), cluster.uri, topology, *how))
    except OSError as error:
        await listener.aclose()
        if serving.control is not None or serving.id:
            raise
        message = "No control listener: this server is not in the registry of running servers"
        cluster.nodes[0].log.write(
            "CONTROL", _NO_CONTROL, message, severity="W", context="initandlisten", attr={"error": str(error)}
        )
        return None
    attr = {"id": name, "address": listener.address}
    cluster.nodes[0].log.write(
        "CONTROL", _CONTROL_LISTENS, "Control listener", context="initandlisten", attr=attr
    )
    return _Door(listener, registry, name)


_CONTROL_LISTENS: Final = 9000001
_NO_CONTROL: Final = 9000002


async def _listen(listener: ControlListener, path: Path | None, control: str | None) -> None:
    """Listen as asked; where nothing was, on a Unix socket if there can be one. Raises `OSError`."""
    can_unix = os.name == "posix" and path is not None
    if control == "unix" and not can_unix:
        raise OSError("a Unix socket for the control is not possible here, or its path is too long; use tcp")
    if path is not None and can_unix and control != "tcp":
        await listener.listen_unix(path)
    else:
        await listener.listen_tcp()


async def _listen_on_unix_sockets(cluster: Cluster, folder: str) -> None:
    """Have the servers that clients connect to listen on Unix sockets as well. Raises `OSError`."""
    for node in cluster.nodes if folder else ():
        path = f"{folder}/mongodb-{node.address.rpartition(':')[2]}.sock"
        server = await asyncio.get_running_loop().create_unix_server(node.protocols(), path)
        attr = {"address": path}
        node.log.write("NETWORK", 23015, "Listening on", context="listener", attr=attr)
        cluster.spawn(_closed_at_the_end(server, path))


async def _closed_at_the_end(server: asyncio.Server, path: str) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        server.close()
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - no path is made for it


async def _serve_ui(cluster: Cluster, serving: Serving) -> str:
    """Serve the live page, and return its address with its token. Raises `ControlError`, `OSError`.

    The token goes to whoever sees standard error; no log holds it, which others may read.
    """
    assert serving.ui is not None
    served = await cluster.serve_ui(serving.ui)
    attr = {"url": served.url}
    cluster.nodes[0].log.write("CONTROL", 0, "Live page", context="initandlisten", attr=attr)
    if not serving.for_people and (not serving.log_file or serving.control == "none"):
        to_stderr(f"live page: {served.page}")
    return served.page


def _announce(cluster: Cluster, ignored: Sequence[str]) -> None:
    node = cluster.nodes[0]
    for option in ignored:
        attr = {"option": option}
        node.log.write(
            "CONTROL", 20698, "Option has no effect here", severity="W", context="initandlisten", attr=attr
        )
    if not cluster.spec.auth:
        message = "Access control is not enabled for the database"
        node.log.write("CONTROL", 22120, message, severity="W", context="initandlisten")
    if node.parameters["enableTestCommands"]:
        message = "Test commands are enabled: any client can make this server fail"
        node.log.write("CONTROL", 22121, message, severity="W", context="initandlisten")


def _stop_signal() -> asyncio.Event:
    """Return an event that is set by SIGINT and SIGTERM.

    The handlers stay until the process ends: a second signal must not break what the first one asked for.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def set_stop(_number: int, _frame: FrameType | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process is ending
            loop.call_soon_threadsafe(stop.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, set_stop)
    return stop


# The environment variables by which driver suites find a server.

_TOPOLOGIES: Final[Mapping[Topology, str]] = {
    Topology.SINGLE: "server",
    Topology.REPLICA_SET: "replica_set",
    Topology.SHARDED: "sharded_cluster",
    Topology.LOAD_BALANCED: "sharded_cluster",
}


def environment_of(cluster: Cluster) -> dict[str, str]:
    """Return the variables by name: those of the drivers' evergreen tools, and of single suites."""
    spec = cluster.spec
    first = (cluster.balancers or cluster.nodes)[0].address
    host, _, port = first.rpartition(":")
    found = {
        "MONGODB_URI": cluster.uri,
        "TOPOLOGY": _TOPOLOGIES[spec.topology],
        "MONGODB_VERSION": spec.profile,
        "AUTH": "auth" if spec.auth else "noauth",
        "SSL": "nossl" if spec.tls is None else "ssl",
        "DB_IP": host.strip("[]"),
        "DB_PORT": port,
    }
    if cluster.balancers:
        found |= {"LOAD_BALANCER": "true", "TEST_LOAD_BALANCER": "1"}
    if spec.is_sharded:
        found |= {"SINGLE_MONGOS_LB_URI": cluster.uri_single, "MULTI_MONGOS_LB_URI": cluster.uri}
        found |= {"MONGODB_URI_SINGLE": cluster.uri_single, "MONGODB_URI_MULTI": cluster.uri}
    user = next((each for each in spec.users if each.password is not None), None)
    if user is not None and user.password is not None:
        found |= {"DB_USER": user.name, "DB_PASSWORD": user.password}
    if spec.tls is not None and spec.tls.ca_file:
        found["CA_PEM"] = spec.tls.ca_file
    return found
