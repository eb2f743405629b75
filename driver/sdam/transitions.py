"""Transitions of the topology at a new server description (SDAM: TopologyType table).

`updated(topology, server)` looks the pair (type of topology, type of server) up in `ACTIONS` and applies
the action found there; a pair that is absent changes only the server's own description.

    UNKNOWN ──standalone, the only seed──> SINGLE          SINGLE and LOAD_BALANCED never change;
       │ ├────mongos──────────────────────> SHARDED        nor does SHARDED
       │ └────member of a replica set─────> REPLICA_SET_NO_PRIMARY
       │                                          │ ^
       └──primary──> REPLICA_SET_WITH_PRIMARY <───┘ │ primary found, or lost
                                          └─────────┘

**A deployment is of one kind**, and it is known of which from the first server that answers. Whatever is
found to be of another kind afterwards was listed by mistake, and is removed rather than used: a write to a
stray standalone would succeed, and be lost.

**Members are believed in by their rank.** Only a primary's list of members is complete: it removes who is not
on it. As long as no primary is known the lists of others add members, and remove nobody but who has another
set name, or is known to the set by another address (`me`).

**Two primaries** can answer at the same time, because one that was cut off takes a while to step down. The
newer one is the one with the higher (electionId, setVersion); the maxima of the two that were seen are kept
in the topology, and outlive the primary that showed them. A primary below them is stale, and becomes Unknown,
like the one that is known when another shows up: there is at most one primary in a description.

**Order of news.** Replies overtake one another, as they come on several connections. Each says by its
topologyVersion how new it is, and what is older than the known is dropped; equal is let through, since the
check that a monitor makes of an unchanged server is still news of when it was last seen.

Nothing is changed in place: each action returns a new description, and listeners can keep the old.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from driver.sdam.description import (
    MEMBER_TYPES,
    REPLICA_SET_TYPES,
    ServerDescription,
    ServerType,
    TopologyDescription,
    TopologyType,
    is_fresher,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Action: TypeAlias = Callable[[TopologyDescription, ServerDescription], TopologyDescription]

PRE_ELECTION_ORDER_WIRE_VERSION = 17
"""Servers before 6.0 compare (setVersion, electionId), newer ones (electionId, setVersion).

A reconfiguration that was rolled back leaves a high setVersion behind, beside which every later primary of an
older order looks stale; elections are never rolled back.
"""


def initial(
    seeds: Iterable[str], *, set_name: str | None = None, direct: bool = False, load_balanced: bool = False
) -> TopologyDescription:
    """Return what is known before the first check (SDAM: Initial TopologyType)."""
    servers = {seed.lower(): ServerDescription(seed.lower()) for seed in seeds}
    if load_balanced:
        kind = TopologyType.LOAD_BALANCED
    elif direct:
        kind = TopologyType.SINGLE
    elif set_name is not None:
        kind = TopologyType.REPLICA_SET_NO_PRIMARY
    else:
        kind = TopologyType.UNKNOWN
    return TopologyDescription(kind, servers, set_name)


def updated(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    """Return the topology after a check of one of its servers; a server that left changes nothing.

    SDAM: Updating the TopologyDescription. A description older than the known one is discarded.
    """
    known = topology.servers.get(server.address)
    if known is None or not is_fresher(server.topology_version, known.topology_version, or_equal=True):
        return topology
    if topology.type is TopologyType.SINGLE:
        return topology.with_server(_checked_single(topology, server))
    # The description goes in first, so that actions see the topology as it is with it.
    replaced = topology.with_server(server)
    action = ACTIONS.get((topology.type, server.type))
    return action(replaced, server) if action else replaced


def _checked_single(topology: TopologyDescription, server: ServerDescription) -> ServerDescription:
    """SDAM: Single. With replicaSet in the URI, a server of another set is not usable.

    It stays in the topology as Unknown: removed, nothing would be left to find the right one by.
    """
    if topology.set_name is None or not server.is_known or server.set_name == topology.set_name:
        return server
    message = (
        f"client is configured to connect to a replica set named {topology.set_name!r}, "
        f"but this server belongs to {server.set_name!r}"
    )
    return _forgotten(server, message)


# --- Unknown ---


def _standalone_of_unknown(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    """Take a standalone in only if it is the single seed (SDAM: updateUnknownWithStandalone).

    One of several seeds is a member that was started without its replica set, for maintenance perhaps.
    """
    if len(topology.servers) == 1:
        return replace(topology, type=TopologyType.SINGLE)
    return topology.without(server.address)


def _sharded(topology: TopologyDescription, _server: ServerDescription) -> TopologyDescription:
    return replace(topology, type=TopologyType.SHARDED)


def _primary_of_unknown(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    return _primary(replace(topology, type=TopologyType.REPLICA_SET_WITH_PRIMARY), server)


def _member_of_unknown(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    return _member_without_primary(replace(topology, type=TopologyType.REPLICA_SET_NO_PRIMARY), server)


# --- Sharded and replica sets ---


def _remove(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    return topology.without(server.address)


def _remove_and_check(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    return _with_primary_checked(topology.without(server.address))


def _check(topology: TopologyDescription, _server: ServerDescription) -> TopologyDescription:
    return _with_primary_checked(topology)


def _with_primary_checked(topology: TopologyDescription) -> TopologyDescription:
    """SDAM: checkIfHasPrimary."""
    kind = TopologyType.REPLICA_SET_WITH_PRIMARY if topology.primary else TopologyType.REPLICA_SET_NO_PRIMARY
    return replace(topology, type=kind)


def _member_without_primary(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    """SDAM: updateRSWithoutPrimary."""
    # The first member that answers decides which set this is, unless the connection string did.
    if topology.set_name is None:
        topology = replace(topology, set_name=server.set_name)
    elif topology.set_name != server.set_name:
        return topology.without(server.address)
    # It goes by another name in its set, under which it has just been added: it would count twice.
    topology = _with_new_members(topology, server)
    if server.me is not None and server.address != server.me:
        return topology.without(server.address)
    return topology


def _member_with_primary(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    """SDAM: updateRSWithPrimaryFromMember. Its list of members is not looked at: the primary's counts."""
    if topology.set_name != server.set_name or (server.me is not None and server.address != server.me):
        topology = topology.without(server.address)
    return _with_primary_checked(topology)


def _primary(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    """SDAM: updateRSFromPrimary."""
    if topology.set_name is None:
        topology = replace(topology, set_name=server.set_name)
    elif topology.set_name != server.set_name:
        return _with_primary_checked(topology.without(server.address))
    if _is_stale_primary(topology, server):
        message = "primary marked stale due to electionId/setVersion mismatch"
        return _with_primary_checked(topology.with_server(_forgotten(server, message)))
    topology = _with_maxima(topology, server)
    # Forget an old primary at once: it may still believe in itself.
    for other in topology.servers.values():
        if other.type is ServerType.RS_PRIMARY and other.address != server.address:
            message = "primary marked stale due to discovery of newer primary"
            topology = topology.with_server(_forgotten(other, message))
            break
    topology = _with_new_members(topology, server)
    members = frozenset(server.members)
    kept = {address: known for address, known in topology.servers.items() if address in members}
    # The primary itself may be among those removed, where the client knows it by another address.
    return _with_primary_checked(replace(topology, servers=kept))


def _is_stale_primary(topology: TopologyDescription, server: ServerDescription) -> bool:
    """Return whether a newer primary was seen, by electionId and setVersion (before 6.0 the reverse)."""
    if server.max_wire_version >= PRE_ELECTION_ORDER_WIRE_VERSION:
        # A primary that shows no electionId is older than all that do.
        return _tuple_of(server.election_id, server.set_version) < _tuple_of(
            topology.max_election_id, topology.max_set_version
        )
    # Before 6.0 it is compared only if both are there on both sides.
    if server.set_version is None or server.election_id is None:
        return False
    if topology.max_set_version is None or topology.max_election_id is None:
        return False
    return (topology.max_set_version, topology.max_election_id) > (server.set_version, server.election_id)


def _tuple_of(election_id: object, set_version: int | None) -> tuple[bytes, int]:
    """Return a comparable pair in which an absent value is the smallest."""
    return (getattr(election_id, "binary", b""), -1 if set_version is None else set_version)


def _forgotten(server: ServerDescription, message: str) -> ServerDescription:
    return ServerDescription(server.address, error=ValueError(message), last_update=server.last_update)


def _with_maxima(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    if server.max_wire_version >= PRE_ELECTION_ORDER_WIRE_VERSION:
        return replace(topology, max_election_id=server.election_id, max_set_version=server.set_version)
    if server.set_version is not None and server.election_id is not None:
        topology = replace(topology, max_election_id=server.election_id)
    # Before 6.0 the setVersion counts up by itself, also from a primary that shows no electionId.
    known = topology.max_set_version
    if server.set_version is not None and (known is None or server.set_version > known):
        topology = replace(topology, max_set_version=server.set_version)
    return topology


def _with_new_members(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    new = {
        address: ServerDescription(address) for address in server.members if address not in topology.servers
    }
    return replace(topology, servers={**topology.servers, **new}) if new else topology


def _table() -> Mapping[tuple[TopologyType, ServerType], Action]:
    unknown, sharded = TopologyType.UNKNOWN, TopologyType.SHARDED
    no_primary, with_primary = REPLICA_SET_TYPES
    others = tuple(kind for kind in MEMBER_TYPES if kind is not ServerType.RS_PRIMARY)
    table: dict[tuple[TopologyType, ServerType], Action] = {
        (unknown, ServerType.STANDALONE): _standalone_of_unknown,
        (unknown, ServerType.MONGOS): _sharded,
        (unknown, ServerType.RS_PRIMARY): _primary_of_unknown,
        (sharded, ServerType.STANDALONE): _remove,
        (sharded, ServerType.RS_GHOST): _remove,
        (no_primary, ServerType.STANDALONE): _remove,
        (no_primary, ServerType.MONGOS): _remove,
        (no_primary, ServerType.RS_PRIMARY): _primary,
        (with_primary, ServerType.UNKNOWN): _check,
        (with_primary, ServerType.STANDALONE): _remove_and_check,
        (with_primary, ServerType.MONGOS): _remove_and_check,
        (with_primary, ServerType.RS_PRIMARY): _primary,
        (with_primary, ServerType.RS_GHOST): _check,
        (sharded, ServerType.RS_PRIMARY): _remove,
    }
    # Absent: an Unknown server, which stays listed since it may come back; a member that is starting up
    # (RSGhost), of which nobody can say yet what set it is of; a mongos in a sharded cluster, which is one
    # more.
    for kind in others:
        table[unknown, kind] = _member_of_unknown
        table[sharded, kind] = _remove
        table[no_primary, kind] = _member_without_primary
        table[with_primary, kind] = _member_with_primary
    return table


ACTIONS = _table()
