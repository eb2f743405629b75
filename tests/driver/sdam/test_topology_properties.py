"""What is known of a deployment stays possible, whatever its servers say and in whatever order."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from stateful import thorough

from driver.errors import NetworkError
from driver.sdam.description import (
    REPLICA_SET_TYPES,
    ServerDescription,
    ServerType,
    TopologyDescription,
    TopologyType,
    parse_hello,
)
from driver.sdam.transitions import initial, updated

ADDRESSES = ("a:1", "b:1", "c:1", "d:1")
WIRE = {"ok": 1, "minWireVersion": 0, "maxWireVersion": 21}
addresses = st.sampled_from(ADDRESSES)
members = st.lists(addresses, min_size=1, max_size=4, unique=True)

OF_A_SET = {
    ServerType.RS_PRIMARY,
    ServerType.RS_SECONDARY,
    ServerType.RS_ARBITER,
    ServerType.RS_OTHER,
    ServerType.RS_GHOST,
    ServerType.UNKNOWN,
}
ALLOWED = {
    TopologyType.UNKNOWN: {ServerType.UNKNOWN, ServerType.RS_GHOST},
    # A ghost that was seen before the first mongos stays until it is checked again.
    TopologyType.SHARDED: {ServerType.MONGOS, ServerType.UNKNOWN, ServerType.RS_GHOST},
    TopologyType.REPLICA_SET_NO_PRIMARY: OF_A_SET - {ServerType.RS_PRIMARY},
    TopologyType.REPLICA_SET_WITH_PRIMARY: OF_A_SET,
    TopologyType.SINGLE: set(ServerType),
}
FOLLOWING = {
    TopologyType.UNKNOWN: set(TopologyType) - {TopologyType.LOAD_BALANCED},
    TopologyType.SHARDED: {TopologyType.SHARDED},
    TopologyType.SINGLE: {TopologyType.SINGLE},
    TopologyType.REPLICA_SET_NO_PRIMARY: set(REPLICA_SET_TYPES),
    TopologyType.REPLICA_SET_WITH_PRIMARY: set(REPLICA_SET_TYPES),
}


def age(topology: TopologyDescription) -> tuple[bytes, int]:
    election = b"" if topology.max_election_id is None else topology.max_election_id.binary
    return election, -1 if topology.max_set_version is None else topology.max_set_version


class TopologyMachine(RuleBasedStateMachine):
    """Servers say what they like; a failed check may come at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.topology = initial(["a:1"])

    @initialize(
        seeds=st.lists(addresses, min_size=1, max_size=3, unique=True),
        set_name=st.sampled_from([None, None, "rs"]),
        direct=st.booleans(),
    )
    def begin(self, seeds: list[str], set_name: str | None, direct: bool) -> None:  # noqa: FBT001
        direct = direct and len(seeds) == 1
        self.topology = initial(seeds, set_name=set_name, direct=direct)

    def see(self, server: ServerDescription) -> None:
        before = self.topology
        self.topology = updated(before, server)
        assert self.topology.type in FOLLOWING[before.type]
        assert age(self.topology) >= age(before)
        assert before.set_name in {None, self.topology.set_name}
        if server.address not in before.servers:
            assert self.topology is before
        if self.topology.type is before.type:  # else another row of the table says what to do next
            assert updated(self.topology, server).same_as(self.topology)

    def hear(self, address: str, **fields: Any) -> None:
        self.see(parse_hello(address, {**WIRE, **fields}, now=0.0))

    @rule(address=addresses)
    def a_standalone_answers(self, address: str) -> None:
        self.hear(address, isWritablePrimary=True)

    @rule(address=addresses)
    def a_mongos_answers(self, address: str) -> None:
        self.hear(address, isWritablePrimary=True, msg="isdbgrid")

    @rule(address=addresses)
    def a_ghost_answers(self, address: str) -> None:
        self.hear(address, isreplicaset=True)

    @rule(
        address=addresses,
        hosts=members,
        set_name=st.sampled_from(["rs", "rs", "rs", "other"]),
        election=st.integers(1, 4),
        version=st.integers(1, 3),
    )
    def a_primary_answers(
        self, address: str, hosts: list[str], set_name: str, election: int, version: int
    ) -> None:
        hosts = list(dict.fromkeys([*hosts, address]))
        self.hear(
            address,
            isWritablePrimary=True,
            setName=set_name,
            setVersion=version,
            electionId=ObjectId(f"{election:024x}"),
            hosts=hosts,
            me=address,
        )
        primary = self.topology.primary
        if (
            self.topology.type is not TopologyType.SINGLE
            and primary is not None
            and primary.address == address
        ):
            assert set(self.topology.servers) == set(hosts)

    @rule(
        address=addresses,
        hosts=members,
        kind=st.sampled_from(["secondary", "arbiterOnly", "hidden"]),
        set_name=st.sampled_from(["rs", "rs", "rs", "other"]),
        me=st.one_of(st.none(), addresses),
    )
    def a_member_answers(
        self, address: str, hosts: list[str], kind: str, set_name: str, me: str | None
    ) -> None:
        named = {} if me is None else {"me": me}
        self.hear(address, setName=set_name, hosts=hosts, **{kind: True}, **named)

    @rule(address=addresses)
    def a_check_fails(self, address: str) -> None:
        known = self.topology.servers.get(address, ServerDescription(address))
        self.see(known.unknown(NetworkError("lost"), now=0.0))

    @invariant()
    def there_is_one_primary_at_most(self) -> None:
        kinds = [server.type for server in self.topology.servers.values()]
        assert kinds.count(ServerType.RS_PRIMARY) <= 1

    @invariant()
    def the_type_says_whether_there_is_a_primary(self) -> None:
        if self.topology.type in REPLICA_SET_TYPES:
            with_primary = self.topology.type is TopologyType.REPLICA_SET_WITH_PRIMARY
            assert with_primary is (self.topology.primary is not None)

    @invariant()
    def only_servers_that_belong_into_the_deployment_are_in_it(self) -> None:
        kinds = {server.type for server in self.topology.servers.values()}
        assert kinds <= ALLOWED[self.topology.type]

    @invariant()
    def members_are_of_the_one_set(self) -> None:
        if self.topology.type in REPLICA_SET_TYPES:
            names = {server.set_name for server in self.topology.servers.values()}
            assert names <= {None, self.topology.set_name}

    @invariant()
    def a_single_server_stays_single(self) -> None:
        if self.topology.type is TopologyType.SINGLE:
            assert len(self.topology.servers) == 1


TestTopologyMachine = pytest.mark.slow(TopologyMachine.TestCase)
TestTopologyMachine.settings = thorough()
