"""The options of `pushbackd serve`, which are those of a mongod."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

from fakeserver.cli.running import CONTROLS
from fakeserver.deployment.spec import STORAGES, Topology, topology_name
from fakeserver.profile import PROFILES
from mongowire.documents.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


BAD_INPUT: Final = 2
"""A file or a value cannot be used."""
USAGE: Final = 4
"""The command line is wrong."""
CANNOT_START: Final = 48
"""The exit code of a mongod that cannot listen."""

_MESSAGE_MAX: Final = 600
_CHOICE: Final = re.compile(r"(argument [^:]+): invalid choice: (.+) \(choose from (.+)\)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """Reports an error in one line with its cure; argparse would print all options before it."""

    def add_argument(self, *names: str, **facts: Any) -> argparse.Action:
        """Declare an option; one that takes a text, a path or a name takes no empty one."""
        if facts.get("action", "append") == "append" and not facts.keys() & {"type", "choices"}:
            facts["type"] = filled
        return super().add_argument(*names, **facts)

    def parse_args(  # type: ignore[override]  # the namespace is argparse's own
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Return the options. An unknown one ends the process, with the one that was meant."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown[0]))
        return options

    def error(self, message: str) -> NoReturn:
        """Print a mistake and end the process."""
        message = _CHOICE.sub(_choice, message)
        self.exit(USAGE, f"Error: {cut(message)}\n'{self.prog} --help' lists arguments and options.\n")

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"unexpected argument {word!r}: a server takes options only"
        name = word.partition("=")[0]
        known = [option for action in self.shown() for option in action.option_strings]
        hint = did_you_mean(name, known)
        return f"no such option: {name}" + (f"; {hint}" if hint else "")

    def shown(self) -> list[Any]:
        """Return the options that the help lists."""
        return [action for action in self._actions if action.help != argparse.SUPPRESS]


def filled(text: str) -> str:
    """Return a text that is not empty. Raises `ArgumentTypeError`."""
    if not text:
        raise argparse.ArgumentTypeError("the value is empty; leave the option out, or say what it names")
    return text


def cut(message: str) -> str:
    """Return a message, cut to a length that can be read: it may quote a long argument."""
    return message if len(message) <= _MESSAGE_MAX else f"{message[:_MESSAGE_MAX]}…"


def _choice(found: re.Match[str]) -> str:
    argument, word, choices = found.groups()
    known = [choice.strip().strip("'") for choice in choices.split(",")]
    cure = did_you_mean(word.strip("'"), known, f"known are {', '.join(known)}")
    return f"{argument}: unknown value {word}; {cure}"


IGNORED_VALUES: Final = (
    *("--dbpath", "--storageEngine", "--oplogSize", "--wiredTigerCacheSizeGB"),
    *("--wiredTigerJournalCompressor", "--wiredTigerCollectionBlockCompressor", "--configdb"),
)
IGNORED_FLAGS: Final = ("--journal", "--nojournal", "--directoryperdb", "--shardsvr", "--configsvr")
TOPOLOGIES: Final = tuple(map(str, Topology))
REMOTE: Final = "--listen-beyond-loopback-without-authentication"
DEFAULT_MEMBERS: Final = 3
DEFAULT_MONGOS: Final = 2


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parse = Parser(prog="pushbackd serve", description="Run a fake MongoDB deployment.", allow_abbrev=False)
    add = parse.add_argument
    add("-f", "--config", metavar="FILE", help="file with options in mongod's YAML; those given here win")
    port = (
        "port of the first server; the others get the next ones, arbiters the last of a set (0: free ports)"
    )
    add("--port", type=int, default=0, metavar="PORT", help=port)
    add("--bind_ip", default="localhost", metavar="HOST", help="address to listen on and to advertise")
    add("--bind_ip_all", action="store_true", help="listen on all addresses")
    add("--ipv6", action="store_true", help="with --bind_ip_all, listen on IPv6 addresses too")
    add("--unixSocketPrefix", metavar="FOLDER", help="listen on FOLDER/mongodb-PORT.sock as well")
    add("--maxConns", type=int, metavar="N", help="number of connections that each server accepts")
    _add_deployment(add)
    add(
        "--setParameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="server parameter, or failpoint.NAME with a document; may be repeated",
    )
    add(
        "--networkMessageCompressors",
        metavar="NAMES",
        help="compressors to offer, separated by commas, or disabled",
    )
    add("--seed", type=int, default=0, metavar="N", help="seed for every random choice of the servers")
    add(
        "--scenario",
        metavar="FILE|NAME",
        help="file with a deployment, its data, rules, faults and a timeline, or the name of a bundled one"
        " (docs/SERVER-SCENARIOS.md)",
    )
    add(
        "--auth",
        action="store_true",
        help="switch access control on: clients authenticate and have the privileges of their roles",
    )
    add("--keyFile", metavar="FILE", help="switches --auth on, as on a real server; the file is not read")
    add(
        "--user",
        action="append",
        default=[],
        metavar="NAME:PASSWORD",
        help="user of the admin database with the role root; the connection string names the first one",
    )
    add("--ui", type=int, metavar="PORT", help="serve the live page and verbs over HTTP (0: a free port)")
    add("--noscripting", action="store_true", help="refuse server-side JavaScript")
    _add_tls(add)
    _add_process(add)
    _add_control(add)
    add(REMOTE, dest="remote", action="store_true", help="allow a --bind_ip that other machines can reach")
    add("--fork", action="store_true", help=argparse.SUPPRESS)
    add("--shutdown", action="store_true", help=argparse.SUPPRESS)
    add("--nounixsocket", action="store_true", help=argparse.SUPPRESS)
    add("--version", action="store_true", help="print the release and exit")
    for option in IGNORED_VALUES:
        add(option, dest=option, help=argparse.SUPPRESS)
    for option in IGNORED_FLAGS:
        add(option, dest=option, action="store_true", help=argparse.SUPPRESS)
    return parse


def _add_control(add: Callable[..., Any]) -> None:
    """Declare the options for the control of the running server."""
    add(
        "--control",
        choices=CONTROLS,
        help="control listener: a Unix socket (default), a port of the loopback interface, or none",
    )
    add("--id", metavar="NAME", help="id in the registry of running servers (pushbackd ls)")


def _add_process(add: Callable[..., Any]) -> None:
    """Declare the options of the process: its log, and the file with its number."""
    add("--logpath", metavar="FILE", help="file for the log, instead of standard error")
    add("--logappend", action="store_true", help="append to the file of --logpath, instead of replacing it")
    add("--syslog", action="store_true", help="send the log to the system's log, instead of standard error")
    add("--quiet", action="store_true", help="log warnings and errors only")
    add("-v", "--verbose", action="count", default=0, help="log more: -v is level 1 of logLevel, -vvvvv is 5")
    add(
        "--storage",
        choices=STORAGES,
        help="storage engine (default: memory); mongomock stores and queries as that library does",
    )
    add("--journalFile", metavar="FILE", help="file to append the journal to, a line of JSON for each record")
    add("--pidfilepath", metavar="FILE", help="file for the number of the process")


def _add_deployment(add: Callable[..., Any]) -> None:
    """Declare the options for the kind and the size of the deployment."""
    add("--replSet", metavar="NAME", help="name of the replica set to run")
    add("--topology", type=topology_name, choices=TOPOLOGIES, help="kind of deployment (default single)")
    add(
        "--members",
        type=int,
        metavar="N",
        help=f"number of members of each replica set, arbiters included (default {DEFAULT_MEMBERS})",
    )
    add(
        "--arbiters",
        type=int,
        default=0,
        metavar="N",
        help="how many of --members have no data and only vote: those with the last ports (default 0)",
    )
    add(
        "--mongos",
        type=int,
        metavar="N",
        help=f"number of mongos of a sharded cluster (default {DEFAULT_MONGOS})",
    )
    add("--shards", type=int, metavar="N", help="number of shards of a sharded cluster (default 1)")
    add(
        "--loadBalancerPort",
        type=int,
        metavar="PORT",
        help="port of the load balancer of the first mongos; the balancer of all mongos gets the next one",
    )
    side = "; the other servers get the next ones"
    add("--priorityPort", type=int, metavar="PORT", help=f"port of the first server without limits{side}")
    proxy = f"port of the first server for connections with a PROXY header{side}"
    add("--proxyPort", type=int, metavar="PORT", help=proxy)
    add("--profile", choices=list(PROFILES), default="8.2", help="MongoDB release to imitate")


def _add_tls(add: Callable[..., Any]) -> None:
    """Declare mongod's TLS options, under their present and their former names."""
    modes = ("disabled", "allowTLS", "preferTLS", "requireTLS", "allowSSL", "preferSSL", "requireSSL")
    add("--tlsMode", "--sslMode", choices=modes, help="whether clients may or must use TLS")
    add(
        "--tlsCertificateKeyFile",
        "--sslPEMKeyFile",
        metavar="FILE",
        help="file with the key and the certificate of the server",
    )
    add(
        "--tlsCAFile",
        "--sslCAFile",
        metavar="FILE",
        help="file with the certificate authority that signs clients' certificates",
    )
    add(
        "--tlsAllowConnectionsWithoutCertificates",
        "--sslAllowConnectionsWithoutCertificates",
        action="store_true",
        help="accept clients without a certificate",
    )
    add(
        "--tlsAllowInvalidCertificates",
        "--sslAllowInvalidCertificates",
        action="store_true",
        help="do not ask clients for a certificate",
    )
