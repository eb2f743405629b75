"""The deployment that the options of `pushbackd serve` describe."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import fakeserver
from fakeserver.access import UserSpec
from fakeserver.cli.command import ServeOptions, options_of
from fakeserver.cli.options import DEFAULT_MEMBERS, DEFAULT_MONGOS, REMOTE, TOPOLOGIES
from fakeserver.deployment.spec import (
    STORAGES,
    ClusterSpec,
    MemberSpec,
    TlsMode,
    TlsSpec,
    Topology,
    topology_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.control.scenario.model import Scenario

_COMPRESSORS: Final = ("snappy", "zlib", "zstd")
_MOST_VERBOSE: Final = 5
_TLS_MODES_OF_SSL: Final = {"allowSSL": "allowTLS", "preferSSL": "preferTLS", "requireSSL": "requireTLS"}
_OF_THE_FILE: Final = (
    *("tlsMode", "tlsCertificateKeyFile", "tlsCAFile", "networkMessageCompressors", "noscripting"),
)
_OF_THE_TOPOLOGY: Final = (
    *("topology", "replSet", "members", "arbiters", "mongos", "shards", "loadBalancerPort"),
)


def described(arguments: Sequence[str], environment: Mapping[str, str]) -> ClusterSpec | Scenario:
    """Return the deployment that arguments of `serve` describe, or the scenario that they name.

    Raises `click.ClickException`, or `ValueError` with a message for people.
    """
    options = options_of(arguments)
    return scenario_of(options) if options.scenario is not None else spec_of(options, environment)


def log_of(arguments: Sequence[str]) -> str | None:
    """Return the file to which arguments of `serve` have it log. Raises `click.ClickException`."""
    found: str | None = options_of(arguments).logpath
    return found


def spec_of(options: ServeOptions, environment: Mapping[str, str]) -> ClusterSpec:
    """Return the deployment that the options describe. Raises `ValueError` with a message for people.

    `FAKESERVER_TOPOLOGY`, or the `TOPOLOGY` of the drivers' evergreen tools, is the default of `--topology`;
    with their `LOAD_BALANCER=true`, a sharded cluster is behind load balancers.
    """
    topology = _topology(options, environment)
    members, mongos, shards = _counts(options, topology)
    host, bind_ip = _addresses(options)
    balancer = options.loadBalancerPort
    count = mongos or members
    return ClusterSpec(
        topology=topology,
        members=_with_arbiters(members, options.arbiters),
        mongos=mongos,
        shards=shards,
        set_name="rs0" if options.replSet is None else options.replSet,
        host=host,
        bind_ip=bind_ip,
        profile=options.profile,
        parameters=_parameters(options),
        seed=options.seed,
        ports=_ports(options.port or None, count),
        priority_ports=_ports(options.priorityPort, count),
        proxy_ports=_ports(options.proxyPort, count),
        balancer_ports=(balancer, balancer + 1) if balancer else (),
        compressors=_compressors(options.networkMessageCompressors),
        auth=options.auth or options.keyFile is not None,
        users=tuple(map(_user, options.user)),
        tls=_tls(options),
        javascript=not options.noscripting,
        journal_file=options.journalFile,
        storage=options.storage or STORAGES[0],
    )


def scenario_of(options: ServeOptions) -> Scenario:
    """Return the scenario that the options name, on the addresses and with the parameters of the options.

    Options of the topology take the place of the file's. Raises `ValueError` with a message for people.
    """
    for name in _OF_THE_FILE:
        if getattr(options, name):
            raise ValueError(f"--{name}: the file of --scenario describes the deployment; leave out --{name}")
    scenario = _on_topology(fakeserver.load_scenario(options.scenario), options)
    spec = scenario.spec
    host, bind_ip = _addresses(options)
    count = spec.mongos or len(spec.member_specs)
    return scenario.on(
        replace(
            spec,
            host=host,
            bind_ip=bind_ip,
            ports=_ports(options.port or None, count),
            priority_ports=_ports(options.priorityPort, count) or spec.priority_ports,
            proxy_ports=_ports(options.proxyPort, count) or spec.proxy_ports,
            parameters={**spec.parameters, **_parameters(options)},
            seed=options.seed or spec.seed,
            journal_file=options.journalFile or spec.journal_file,
            storage=options.storage or spec.storage,
            auth=spec.auth or options.auth or options.keyFile is not None,
            users=(*map(_user, options.user), *spec.users),
        )
    )


def _on_topology(scenario: Scenario, options: ServeOptions) -> Scenario:
    """Return a scenario on the topology of the options, where they name another than the file's.

    It is read again for that: the file may name a server, or a verb, that is not there.
    """
    given = [name for name in _OF_THE_TOPOLOGY if getattr(options, name)]
    own = scenario.spec
    if not given:
        return scenario
    if options.topology is None and options.replSet is None:
        options = ServeOptions(**{**vars(options), "topology": str(own.topology)})
    wanted = spec_of(options, {})
    if given == ["topology"] and wanted.topology is own.topology:
        return scenario
    kept = ("members", "mongos", "shards", "set_name", "balancer_ports")
    spec = replace(own, topology=wanted.topology, **{name: getattr(wanted, name) for name in kept})
    return fakeserver.load_scenario(options.scenario, spec=replace(spec, parameters={}, users=()))


def _ports(first: int | None, count: int) -> tuple[int, ...]:
    """Return the ports of as many servers: those from the first on, free ones for 0, none for None."""
    if first is None:
        return ()
    return tuple(range(first, first + count)) if first else (0,) * count


def _tls(options: ServeOptions) -> TlsSpec | None:
    if options.tlsMode is None:
        if options.tlsCertificateKeyFile or options.tlsCAFile:
            raise ValueError("TLS files have no use without --tlsMode")
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


def _counts(options: ServeOptions, topology: Topology) -> tuple[int, int, int]:
    """Return the numbers of members (of each set), of mongos and of shards."""
    sharded = topology in {Topology.SHARDED, Topology.LOAD_BALANCED}
    if not sharded and (options.mongos or options.shards):
        raise ValueError("--mongos and --shards are for a sharded cluster; add --topology sharded")
    if options.loadBalancerPort and topology is not Topology.LOAD_BALANCED:
        raise ValueError("--loadBalancerPort is for a load-balanced cluster; add --topology load-balanced")
    if topology is Topology.SINGLE:
        if options.members not in {None, 1}:
            raise ValueError("--members is for a replica set; add --replSet NAME")
        return 1, 0, 0
    members = DEFAULT_MEMBERS if options.members is None else options.members
    if not sharded:
        return members, 0, 0
    mongos = DEFAULT_MONGOS if options.mongos is None else options.mongos
    return members, mongos, 1 if options.shards is None else options.shards


def _with_arbiters(members: int, arbiters: int) -> int | list[MemberSpec]:
    """Return the members of a set, of which the last ones are arbiters."""
    if not arbiters:
        return members
    if not 0 < arbiters < members:
        raise ValueError(f"--arbiters must be from 0 to {members - 1}: one of the members holds data")
    return [MemberSpec(arbiter=number >= members - arbiters) for number in range(members)]


def _topology(options: ServeOptions, environment: Mapping[str, str]) -> Topology:
    name = options.topology
    if name is None and options.replSet is not None:
        return Topology.REPLICA_SET
    if name is None:
        name = environment.get("FAKESERVER_TOPOLOGY") or environment.get("TOPOLOGY") or str(Topology.SINGLE)
    name = topology_name(name)
    if name not in TOPOLOGIES:
        raise ValueError(f"unknown topology {name!r}; known are {', '.join(TOPOLOGIES)}")
    topology = Topology(name)
    if topology is not Topology.REPLICA_SET and options.replSet is not None:
        raise ValueError(f"--replSet contradicts --topology {topology}; use --topology replicaset")
    if topology is Topology.SHARDED and environment.get("LOAD_BALANCER") == "true":
        return Topology.LOAD_BALANCED
    return topology


def _addresses(options: ServeOptions) -> tuple[str, str]:
    """Return the name that members advertise, and the address that they listen on."""
    everywhere = "::" if options.ipv6 else "0.0.0.0"  # noqa: S104 - asked for
    bind_ip = everywhere if options.bind_ip_all else options.bind_ip.split(",")[0]
    has_auth = options.auth or options.keyFile is not None
    if not _is_loopback(bind_ip) and not has_auth and not options.remote:
        raise ValueError(
            f"--bind_ip {bind_ip} lets other machines in, and access control is off; add --auth, or"
            f" {REMOTE} if that is intended"
        )
    return ("localhost" if bind_ip in {"0.0.0.0", "::"} else bind_ip), bind_ip  # noqa: S104 - as above


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _parameters(options: ServeOptions) -> dict[str, Any]:
    """Return the server parameters, by name; those of short options come first."""
    parameters: dict[str, Any] = {}
    if options.verbose:
        parameters["logLevel"] = str(min(options.verbose, _MOST_VERBOSE))
    if options.maxConns is not None:
        parameters["maxIncomingConnections"] = str(options.maxConns)
    for setting in options.setParameter:
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
