"""The server as a program, which takes the flags of a mongod.

The connection string is all that goes to standard output; the log goes to standard error, one JSON object per
line, in the shape of a mongod's.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

import fakeserver
from fakeserver.errors import CommandError
from fakeserver.garbage import collect_when_idle, collected_when_idle
from fakeserver.profile import PROFILES
from fakeserver.spec import ClusterSpec, Topology, UserSpec
from fakeserver.tls import TlsMode, TlsSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from fakeserver.cluster import Cluster

_TOPOLOGIES: Final = {
    "standalone": Topology.STANDALONE,
    "server": Topology.STANDALONE,
    "single": Topology.STANDALONE,
    "replica_set": Topology.REPLICA_SET,
    "replicaset": Topology.REPLICA_SET,
    "sharded": Topology.SHARDED,
    "sharded_cluster": Topology.SHARDED,
    "load_balanced": Topology.LOAD_BALANCED,
    "load-balanced": Topology.LOAD_BALANCED,
}
"""Names of topologies, those of the drivers' evergreen tools included."""

_IGNORED_VALUES: Final = (
    *("--dbpath", "--storageEngine", "--oplogSize", "--wiredTigerCacheSizeGB", "--logpath"),
    *("--wiredTigerJournalCompressor", "--wiredTigerCollectionBlockCompressor", "--pidfilepath"),
)
_IGNORED_FLAGS: Final = ("--journal", "--nojournal", "--directoryperdb", "--logappend", "--quiet")
_COMPRESSORS: Final = ("snappy", "zlib", "zstd")
_REMOTE: Final = "--listen-beyond-loopback-without-authentication"
_DEFAULT_MEMBERS: Final = 3
_DEFAULT_MONGOS: Final = 2
_MESSAGE_MAX: Final = 600
_USAGE_ERROR: Final = 2
_CANNOT_START: Final = 48
"""The exit code of a mongod that cannot listen."""


class _Parser(argparse.ArgumentParser):
    """Tells a mistake in one line, and not all options before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE_ERROR, f"{self.prog}: error: {_cut(message)} (--help tells all options)\n")


def _cut(message: str) -> str:
    """Return a message that a reader can take in, whatever it quotes."""
    return message if len(message) <= _MESSAGE_MAX else f"{message[:_MESSAGE_MAX]}…"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parse = _Parser(prog="pushbackd serve", description="Run a fake MongoDB deployment.", allow_abbrev=False)
    add = parse.add_argument
    add("--port", type=int, default=0, help="the first member's port, the others' follow (0: free ports)")
    add("--bind_ip", default="localhost", help="the address to listen on, and to be known by")
    add("--bind_ip_all", action="store_true", help="listen on every address")
    add("--replSet", metavar="NAME", help="run a replica set of this name")
    add("--topology", choices=sorted(_TOPOLOGIES), help="standalone, replica_set, sharded or load_balanced")
    add("--members", type=int, help=f"how many members a replica set has (default {_DEFAULT_MEMBERS})")
    add("--mongos", type=int, help=f"how many mongos a sharded cluster has (default {_DEFAULT_MONGOS})")
    add("--shards", type=int, help="how many shards a sharded cluster has (default 1)")
    add("--loadBalancerPort", type=int, help="the port of the balancer of one mongos; that of all follows")
    add("--profile", choices=list(PROFILES), default="8.2", help="the release to play")
    add("--setParameter", action="append", default=[], metavar="NAME=VALUE", help="a server parameter")
    add("--networkMessageCompressors", metavar="NAMES", help="compressors to offer, or disabled")
    add("--seed", type=int, default=0, help="what the dice are seeded with")
    add("--auth", action="store_true", help="ask clients who they are, and hold them to their roles")
    add("--keyFile", metavar="FILE", help="as on a server, it switches --auth on; the file is not read")
    add(
        "--user",
        action="append",
        default=[],
        metavar="NAME:PASSWORD",
        help="a user of the admin database with the role root; the connection string names the first",
    )
    add("--noscripting", action="store_true", help="refuse server-side JavaScript")
    _add_tls(add)
    add(_REMOTE, dest="remote", action="store_true", help="allow a bind_ip that other machines can reach")
    add("--fork", action="store_true", help=argparse.SUPPRESS)
    add("--version", action="store_true", help="tell the release and exit")
    for option in _IGNORED_VALUES:
        add(option, dest=option, help=argparse.SUPPRESS)
    for option in _IGNORED_FLAGS:
        add(option, dest=option, action="store_true", help=argparse.SUPPRESS)
    return parse


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code."""
    parse = parser()
    options = parse.parse_args(argv)
    if options.version:
        sys.stdout.write(f"db version v{PROFILES[options.profile].version}\n")
        return 0
    if options.fork:
        parse.error("--fork is not supported: run it in the background, or under a process manager")
    try:
        spec = spec_of(options, os.environ)
    except ValueError as error:
        parse.error(str(error))
    ignored = [option for option in (*_IGNORED_VALUES, *_IGNORED_FLAGS) if getattr(options, option)]
    try:
        with collected_when_idle():
            asyncio.run(_serve(spec, ignored))
    except (CommandError, OSError) as error:
        sys.stderr.write(_cut(f"cannot start: {error}") + "\n")
        return _CANNOT_START if isinstance(error, OSError) else _USAGE_ERROR
    try:
        sys.stderr.flush()
    except OSError:
        _drop_stderr()
    return 0


def spec_of(options: argparse.Namespace, environment: Mapping[str, str]) -> ClusterSpec:
    """Return what the options describe. Raises `ValueError` with a message for people.

    `FAKESERVER_TOPOLOGY`, or the `TOPOLOGY` of the drivers' evergreen tools, is the default of `--topology`;
    with their `LOAD_BALANCER=true`, a sharded cluster is behind load balancers.
    """
    topology = _topology(options, environment)
    members, mongos, shards = _counts(options, topology)
    host, bind_ip = _addresses(options)
    balancer = options.loadBalancerPort
    return ClusterSpec(
        topology=topology,
        members=members,
        mongos=mongos,
        shards=shards,
        set_name="rs0" if options.replSet is None else options.replSet,
        host=host,
        bind_ip=bind_ip,
        profile=options.profile,
        parameters=_parameters(options.setParameter),
        seed=options.seed,
        ports=tuple(range(options.port, options.port + (mongos or members))) if options.port else (),
        balancer_ports=(balancer, balancer + 1) if balancer else (),
        compressors=_compressors(options.networkMessageCompressors),
        auth=options.auth or options.keyFile is not None,
        users=tuple(_user(text) for text in options.user),
        tls=_tls(options),
        javascript=not options.noscripting,
    )


_TLS_MODES_OF_SSL: Final = {"allowSSL": "allowTLS", "preferSSL": "preferTLS", "requireSSL": "requireTLS"}


def _add_tls(add: Callable[..., Any]) -> None:
    """Declare mongod's options of TLS, under their names of today and those of old."""
    modes = ("disabled", "allowTLS", "preferTLS", "requireTLS", "allowSSL", "preferSSL", "requireSSL")
    add("--tlsMode", "--sslMode", choices=modes, help="whether clients may or must speak TLS")
    add(
        "--tlsCertificateKeyFile",
        "--sslPEMKeyFile",
        metavar="FILE",
        help="key and certificate of the server",
    )
    add("--tlsCAFile", "--sslCAFile", metavar="FILE", help="the authority of clients' certificates")
    add(
        "--tlsAllowConnectionsWithoutCertificates",
        "--sslAllowConnectionsWithoutCertificates",
        action="store_true",
        help="let clients in that show no certificate",
    )
    add(
        "--tlsAllowInvalidCertificates",
        "--sslAllowInvalidCertificates",
        action="store_true",
        help="ask clients for no certificate",
    )


def _tls(options: argparse.Namespace) -> TlsSpec | None:
    if options.tlsMode is None:
        if options.tlsCertificateKeyFile or options.tlsCAFile:
            raise ValueError("the files of TLS have no use without --tlsMode")
        return None
    return TlsSpec(
        mode=TlsMode(_TLS_MODES_OF_SSL.get(options.tlsMode, options.tlsMode)),
        certificate_key_file=options.tlsCertificateKeyFile or "",
        ca_file=options.tlsCAFile,
        allow_connections_without_certificates=options.tlsAllowConnectionsWithoutCertificates,
        allow_invalid_certificates=options.tlsAllowInvalidCertificates,
    )


def _user(text: str) -> UserSpec:
    name, colon, password = text.partition(":")
    if not colon or not name or not password:
        raise ValueError("--user must have the form NAME:PASSWORD")
    return UserSpec(name, password)


def _counts(options: argparse.Namespace, topology: Topology) -> tuple[int, int, int]:
    """Return the numbers of members (of each set), of mongos and of shards."""
    sharded = topology in {Topology.SHARDED, Topology.LOAD_BALANCED}
    if not sharded and (options.mongos or options.shards):
        raise ValueError("--mongos and --shards are for a sharded cluster; add --topology sharded")
    if options.loadBalancerPort and topology is not Topology.LOAD_BALANCED:
        raise ValueError("--loadBalancerPort is for a load balanced cluster; add --topology load_balanced")
    if topology is Topology.STANDALONE:
        if options.members not in {None, 1}:
            raise ValueError("--members is for a replica set; add --replSet NAME")
        return 1, 0, 0
    members = _DEFAULT_MEMBERS if options.members is None else options.members
    if not sharded:
        return members, 0, 0
    mongos = _DEFAULT_MONGOS if options.mongos is None else options.mongos
    return members, mongos, 1 if options.shards is None else options.shards


def _topology(options: argparse.Namespace, environment: Mapping[str, str]) -> Topology:
    name = options.topology
    if name is None and options.replSet is not None:
        return Topology.REPLICA_SET
    if name is None:
        name = environment.get("FAKESERVER_TOPOLOGY") or environment.get("TOPOLOGY") or "standalone"
    if name not in _TOPOLOGIES:
        raise ValueError(f"unknown topology {name!r}; known are {', '.join(sorted(_TOPOLOGIES))}")
    topology = _TOPOLOGIES[name]
    if topology is not Topology.REPLICA_SET and options.replSet is not None:
        raise ValueError(f"a {topology} deployment has no --replSet; use --topology replica_set")
    if topology is Topology.SHARDED and environment.get("LOAD_BALANCER") == "true":
        return Topology.LOAD_BALANCED
    return topology


def _addresses(options: argparse.Namespace) -> tuple[str, str]:
    """Return the name that members advertise, and the address that they listen on."""
    bind_ip = "0.0.0.0" if options.bind_ip_all else options.bind_ip.split(",")[0]  # noqa: S104 - asked for
    asks = options.auth or options.keyFile is not None
    if not _is_loopback(bind_ip) and not asks and not options.remote:
        raise ValueError(
            f"--bind_ip {bind_ip} lets other machines in, and nothing here asks who they are; add --auth, or"
            f" {_REMOTE} if that is what you want"
        )
    return ("localhost" if bind_ip in {"0.0.0.0", "::"} else bind_ip), bind_ip  # noqa: S104 - as above


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _parameters(settings: Sequence[str]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--setParameter {setting!r} must have the form NAME=VALUE")
        parameters[name.strip()] = value.strip()
    return parameters


def _compressors(names: str | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    if names == "disabled":
        return ()
    compressors = tuple(name.strip() for name in names.split(","))
    for name in compressors:
        if name not in _COMPRESSORS:
            known = ", ".join(_COMPRESSORS)
            raise ValueError(f"--networkMessageCompressors: {name!r} is none of {known} and disabled")
    return compressors


async def _serve(spec: ClusterSpec, ignored: Sequence[str]) -> None:
    """Run until a signal asks to stop, which may be as soon as the first server listens, or before that."""
    stopping = _listen_to_signals()
    async with fakeserver.start(spec, log_sink=_to_stderr) as cluster:
        _announce(cluster, ignored)
        cluster.spawn(collect_when_idle(cluster))
        sys.stdout.write(cluster.uri + "\n")
        sys.stdout.flush()
        await stopping.wait()


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


def _to_stderr(line: str) -> None:
    """Write a line of the log; who does not read it any more, or has no room for it, still has a server."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        _drop_stderr()
    except OSError:
        return  # there may be room again


def _drop_stderr() -> None:
    """Lose all that is said from now on: the interpreter says what is left when it ends, and would fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
        os.close(nowhere)


def _listen_to_signals() -> asyncio.Event:
    """Return what is set when SIGINT or SIGTERM comes.

    The handlers stay until the process ends: a second signal must not break what the first one asked for.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: we are on our way out
            loop.call_soon_threadsafe(stop.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return stop
