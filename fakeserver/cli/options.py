"""The options of `pushbackd serve`, which are those of a mongod: one table.

From a row are made the option on the command line (`command`), its keys in the file of `--config`
(`config_file`), and its line in docs/COMMAND-LINE.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import click

from fakeserver.cli.values import MOST_PORT, Count, FileName, Filled, OneOf, ScenarioName, SeedNumber
from fakeserver.deployment.spec import STORAGES, Topology, topology_name
from fakeserver.profile import DEFAULT_PROFILE, PROFILES

TOPOLOGIES: Final = tuple(map(str, Topology))
CONTROLS: Final = ("unix", "tcp", "none")
REMOTE: Final = "--listen-beyond-loopback-without-authentication"
DEFAULT_MEMBERS: Final = 3
DEFAULT_MONGOS: Final = 2
_MEMBERS_MAX: Final = 50
_CONNECTIONS_MAX: Final = 1_000_000


class Takes(Enum):
    """What an option takes; the value completes the sentence "… is not …" about a key of the file."""

    TEXT = "a text"
    TEXTS = "a mapping of parameters"
    """A text, and the option may be repeated."""
    WHOLE = "a whole number"
    NUMBER = "a number"
    FLAG = "true or false"
    LEVEL = "a whole number from 0"
    """No value, and the option may be repeated: how often counts."""


class Section(Enum):
    """The parts of the help."""

    DEPLOYMENT = "Deployment"
    ADDRESSES = "Addresses"
    ACCESS = "Access control and TLS"
    BEHAVIOUR = "Behaviour"
    PROCESS = "Log and process"
    CONTROL = "Control"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the file of `--config` that says an option.

    A flag is set by `word` where there is one, else by true, or by false of a key that is `inverted`. Of
    `others` is what the key may say besides, to no effect. `words` are the values of an option that
    knows some.
    """

    path: str
    word: str = ""
    others: tuple[str, ...] = ()
    inverted: bool = False
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOption:
    """An option. Its name is that of its first spelling; `type` and `metavar` are click's."""

    spellings: tuple[str, ...]
    help: str = ""
    takes: Takes = Takes.TEXT
    type: Any = None
    metavar: str | None = None
    default: Any = None
    stated_default: str = ""
    """What help says of the default, where it is no value."""
    section: Section = Section.DEPLOYMENT
    keys: tuple[Key, ...] = ()
    hidden: bool = False
    """No help lists it."""
    ignored: bool = False
    """It has no effect, which the log notes."""

    @property
    def option(self) -> str:
        """The spelling that messages use: the first long one."""
        return next((each for each in self.spellings if each.startswith("--")), self.spellings[0])

    @property
    def name(self) -> str:
        """The name of its value: `replSet` of `--replSet`."""
        return "remote" if self.option == REMOTE else self.option.lstrip("-").replace("-", "_")


def _deployment() -> tuple[ServeOption, ...]:
    return (
        ServeOption(
            spellings=("--topology",),
            type=OneOf(TOPOLOGIES, topology_name),
            stated_default="single",
            help="Kind of deployment.",
        ),
        ServeOption(
            spellings=("--replSet",),
            metavar="NAME",
            help="Name of the replica set to run.",
            keys=(Key("replication.replSetName"),),
        ),
        ServeOption(
            spellings=("--members",),
            takes=Takes.WHOLE,
            type=Count(0, _MEMBERS_MAX),
            metavar="N",
            stated_default=str(DEFAULT_MEMBERS),
            help="Number of members of each replica set, arbiters included.",
        ),
        ServeOption(
            spellings=("--arbiters",),
            takes=Takes.WHOLE,
            type=Count(0, _MEMBERS_MAX),
            metavar="N",
            default=0,
            help="How many of --members have no data and only vote: those with the last ports.",
        ),
        ServeOption(
            spellings=("--shards",),
            takes=Takes.WHOLE,
            type=Count(0, _MEMBERS_MAX),
            metavar="N",
            stated_default="1",
            help="Number of shards of a sharded cluster.",
        ),
        ServeOption(
            spellings=("--mongos",),
            takes=Takes.WHOLE,
            type=Count(0, _MEMBERS_MAX),
            metavar="N",
            stated_default=str(DEFAULT_MONGOS),
            help="Number of mongos of a sharded cluster.",
        ),
        ServeOption(
            spellings=("--profile",),
            type=OneOf(PROFILES),
            default=DEFAULT_PROFILE,
            help="MongoDB release to imitate.",
        ),
        ServeOption(
            spellings=("--scenario",),
            metavar="FILE|NAME",
            type=ScenarioName(),
            help="File with a deployment, its data, rules, faults and a timeline, or the name of a bundled"
            " one (docs/SERVER-SCENARIOS.md).",
        ),
        ServeOption(
            spellings=("-f", "--config"),
            metavar="FILE",
            type=FileName(dir_okay=False),
            help="File with options in mongod's YAML; those given here win.",
        ),
    )


def _addresses() -> tuple[ServeOption, ...]:
    def flag(name: str, help_text: str, *keys: Key) -> ServeOption:
        return ServeOption(
            spellings=(name,), takes=Takes.FLAG, section=Section.ADDRESSES, help=help_text, keys=keys
        )

    def text(name: str, metavar: str, help_text: str, key: str, **more: Any) -> ServeOption:
        given = {"metavar": metavar, "keys": (Key(key),), **more}
        return ServeOption(spellings=(name,), section=Section.ADDRESSES, help=help_text, **given)

    return (
        text(
            "--bind_ip",
            "HOST",
            "Address to listen on and to advertise.",
            "net.bindIp",
            default="localhost",
        ),
        flag("--bind_ip_all", "Listen on all addresses.", Key("net.bindIpAll")),
        flag("--ipv6", "With --bind_ip_all, listen on IPv6 addresses too.", Key("net.ipv6")),
        flag(REMOTE, "Allow a --bind_ip that other machines can reach."),
        text(
            "--unixSocketPrefix",
            "FOLDER",
            "Listen on FOLDER/mongodb-PORT.sock as well.",
            "net.unixDomainSocket.pathPrefix",
            type=FileName(file_okay=False),
        ),
        text(
            "--maxConns",
            "N",
            "Number of connections that each server accepts.",
            "net.maxIncomingConnections",
            takes=Takes.WHOLE,
            type=Count(1, _CONNECTIONS_MAX),
        ),
        text(
            "--networkMessageCompressors",
            "NAMES",
            "Compressors to offer, separated by commas: snappy, zlib, zstd; or disabled.",
            "net.compression.compressors",
        ),
    )


def _ports() -> tuple[ServeOption, ...]:
    def port(name: str, help_text: str, *keys: Key, default: int | None = None) -> ServeOption:
        return ServeOption(
            spellings=(name,),
            takes=Takes.WHOLE,
            type=Count(0, MOST_PORT),
            metavar="PORT",
            default=default,
            section=Section.ADDRESSES,
            help=help_text,
            keys=keys,
        )

    side = "; the other servers get the next ones"
    return (
        port(
            "--port",
            "Port of the first server; the others get the next ones, arbiters the last of a set (0: free"
            " ports).",
            Key("net.port"),
            default=0,
        ),
        port(
            "--priorityPort",
            f"Port of the first server without limits{side}.",
            Key("net.priorityPort"),
        ),
        port(
            "--proxyPort",
            f"Port of the first server for connections with a PROXY header{side}.",
            Key("net.proxyPort"),
        ),
        port(
            "--loadBalancerPort",
            "Port of the load balancer of the first mongos; the balancer of all mongos gets the next one.",
        ),
    )


_TLS_MODES: Final = ("disabled", "allowTLS", "preferTLS", "requireTLS")
_SSL_MODES: Final = ("disabled", "allowSSL", "preferSSL", "requireSSL")


def _access() -> tuple[ServeOption, ...]:
    def tls(present: str, former: str, help_text: str, *keys: Key, **more: Any) -> ServeOption:
        return ServeOption(
            spellings=(present, former), section=Section.ACCESS, help=help_text, keys=keys, **more
        )

    def both(name: str, former: str = "") -> tuple[Key, Key]:
        return Key(f"net.tls.{name}"), Key(f"net.ssl.{former or name}")

    file = {"metavar": "FILE", "type": FileName(dir_okay=False)}
    return (
        ServeOption(
            spellings=("--auth",),
            takes=Takes.FLAG,
            section=Section.ACCESS,
            help="Switch access control on: clients authenticate and have the privileges of their roles.",
            keys=(Key("security.authorization", word="enabled", others=("disabled",)),),
        ),
        ServeOption(
            spellings=("--user",),
            takes=Takes.TEXTS,
            metavar="NAME:PASSWORD",
            section=Section.ACCESS,
            help="User of the admin database with the role root; the connection string names the first one."
            " Repeat the option for more.",
        ),
        ServeOption(
            spellings=("--keyFile",),
            metavar="FILE",
            section=Section.ACCESS,
            help="Switches --auth on, as on a real server; the file is not read.",
            keys=(Key("security.keyFile"),),
        ),
        tls(
            "--tlsMode",
            "--sslMode",
            "Whether clients may or must use TLS.",
            Key("net.tls.mode", words=_TLS_MODES),
            Key("net.ssl.mode", words=_SSL_MODES),
            type=OneOf((*_TLS_MODES, *_SSL_MODES[1:])),
        ),
        tls(
            "--tlsCertificateKeyFile",
            "--sslPEMKeyFile",
            "File with the key and the certificate of the server.",
            *both("certificateKeyFile", "PEMKeyFile"),
            **file,
        ),
        tls(
            "--tlsCAFile",
            "--sslCAFile",
            "File with the certificate authority that signs clients' certificates.",
            *both("CAFile"),
            **file,
        ),
        tls(
            "--tlsAllowConnectionsWithoutCertificates",
            "--sslAllowConnectionsWithoutCertificates",
            "Accept clients without a certificate.",
            *both("allowConnectionsWithoutCertificates"),
            takes=Takes.FLAG,
        ),
        tls(
            "--tlsAllowInvalidCertificates",
            "--sslAllowInvalidCertificates",
            "Do not ask clients for a certificate.",
            *both("allowInvalidCertificates"),
            takes=Takes.FLAG,
        ),
    )


def _behaviour() -> tuple[ServeOption, ...]:
    return (
        ServeOption(
            spellings=("--setParameter",),
            takes=Takes.TEXTS,
            metavar="NAME=VALUE",
            section=Section.BEHAVIOUR,
            help="Server parameter, or failpoint.NAME with a document; repeat the option for more.",
            keys=(Key("setParameter"),),
        ),
        ServeOption(
            spellings=("--seed",),
            takes=Takes.WHOLE,
            type=SeedNumber(),
            metavar="N",
            default=0,
            section=Section.BEHAVIOUR,
            help="Seed for every random choice of the servers.",
        ),
        ServeOption(
            spellings=("--noscripting",),
            takes=Takes.FLAG,
            section=Section.BEHAVIOUR,
            help="Refuse server-side JavaScript.",
            keys=(Key("security.javascriptEnabled", inverted=True),),
        ),
        ServeOption(
            spellings=("--storage",),
            type=OneOf(STORAGES),
            section=Section.BEHAVIOUR,
            stated_default=STORAGES[0],
            help="Storage engine; mongomock stores and queries as that library does.",
        ),
        ServeOption(
            spellings=("--journalFile",),
            metavar="FILE",
            type=FileName(dir_okay=False),
            section=Section.BEHAVIOUR,
            help="File to append the journal to, a line of JSON for each record.",
        ),
    )


def _process() -> tuple[ServeOption, ...]:
    def flag(name: str, help_text: str, key: Key) -> ServeOption:
        return ServeOption(
            spellings=(name,), takes=Takes.FLAG, section=Section.PROCESS, help=help_text, keys=(key,)
        )

    return (
        ServeOption(
            spellings=("--logpath",),
            metavar="FILE",
            type=FileName(dir_okay=False),
            section=Section.PROCESS,
            help="File for the log, instead of standard error.",
            keys=(Key("systemLog.path"),),
        ),
        flag(
            "--logappend",
            "Append to the file of --logpath, instead of replacing it.",
            Key("systemLog.logAppend"),
        ),
        flag(
            "--syslog",
            "Send the log to the system's log, instead of standard error.",
            Key("systemLog.destination", word="syslog", others=("file",)),
        ),
        flag("--quiet", "Log warnings and errors only.", Key("systemLog.quiet")),
        ServeOption(
            spellings=("-v", "--verbose"),
            takes=Takes.LEVEL,
            section=Section.PROCESS,
            help="Log more: -v is level 1 of logLevel, -vvvvv is 5.",
            keys=(Key("systemLog.verbosity"),),
        ),
        ServeOption(
            spellings=("--pidfilepath",),
            metavar="FILE",
            type=FileName(dir_okay=False),
            section=Section.PROCESS,
            help="File for the number of the process.",
            keys=(Key("processManagement.pidFilePath"),),
        ),
        ServeOption(
            spellings=("--version",),
            takes=Takes.FLAG,
            section=Section.PROCESS,
            help="Print the release and exit.",
        ),
    )


def _control() -> tuple[ServeOption, ...]:
    return (
        ServeOption(
            spellings=("--id",),
            metavar="NAME",
            section=Section.CONTROL,
            stated_default="a new one",
            help="Id in the registry of running servers (pushbackd ls).",
        ),
        ServeOption(
            spellings=("--ui",),
            takes=Takes.WHOLE,
            type=Count(0, MOST_PORT),
            metavar="PORT",
            section=Section.CONTROL,
            help="Serve the live page and verbs over HTTP on this port (0: a free port).",
        ),
        ServeOption(
            spellings=("--control",),
            type=OneOf(CONTROLS),
            section=Section.CONTROL,
            stated_default="unix, where there can be a socket",
            help="Control listener: a Unix socket, a port of the loopback interface, or none.",
        ),
    )


def _without_effect() -> tuple[ServeOption, ...]:
    def value(name: str, *keys: Key, takes: Takes = Takes.TEXT) -> ServeOption:
        return ServeOption(spellings=(name,), hidden=True, ignored=True, keys=keys, takes=takes)

    def flag(name: str, *keys: Key, ignored: bool = True) -> ServeOption:
        return ServeOption(spellings=(name,), takes=Takes.FLAG, hidden=True, ignored=ignored, keys=keys)

    return (
        flag("--fork", Key("processManagement.fork"), ignored=False),
        flag("--shutdown", ignored=False),
        flag("--nounixsocket", Key("net.unixDomainSocket.enabled", inverted=True), ignored=False),
        value("--dbpath", Key("storage.dbPath")),
        value("--storageEngine", Key("storage.engine")),
        value("--oplogSize", Key("replication.oplogSizeMB"), takes=Takes.NUMBER),
        value(
            "--wiredTigerCacheSizeGB",
            Key("storage.wiredTiger.engineConfig.cacheSizeGB"),
            takes=Takes.NUMBER,
        ),
        value("--wiredTigerJournalCompressor"),
        value("--wiredTigerCollectionBlockCompressor"),
        value("--configdb", Key("sharding.configDB")),
        flag("--journal", Key("storage.journal.enabled")),
        flag("--nojournal"),
        flag("--directoryperdb", Key("storage.directoryPerDB")),
        flag("--shardsvr", Key("sharding.clusterRole", word="shardsvr")),
        flag("--configsvr", Key("sharding.clusterRole", word="configsvr")),
    )


OPTIONS: Final = (
    *_deployment(),
    *_ports(),
    *_addresses(),
    *_access(),
    *_behaviour(),
    *_process(),
    *_control(),
    *_without_effect(),
)
"""Every option."""


def declared(row: ServeOption) -> click.Option:
    """Return the option of click that a row is."""
    default = f"  [default: {row.stated_default}]" if row.stated_default else ""
    facts: dict[str, Any] = {"help": row.help + default, "hidden": row.hidden}
    if row.default is not None:
        facts |= {"default": row.default, "show_default": True}
    if row.takes is Takes.FLAG:
        facts["is_flag"] = True
    elif row.takes is Takes.LEVEL:
        facts["count"] = True
    else:
        facts |= {"type": row.type or Filled(), "metavar": row.metavar, "multiple": row.takes is Takes.TEXTS}
    return click.Option([row.name, *row.spellings], **facts)
