"""The description of a deployment: what it takes, and what it refuses where it is written."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

import fakeserver
from fakeserver import BackgroundCluster, ClusterSpec, MemberSpec, Topology, UserSpec

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [
        ({"topology": "cluster"}, "topology must be one of single, replicaset, sharded, load-balanced"),
        ({"topology": 3}, "topology must be one of"),
        ({"members": "3"}, "members must be a whole number, or a sequence, each a MemberSpec, not '3'"),
        ({"members": None}, "members must be"),
        ({"members": True}, "members must be"),
        ({"members": [3]}, "members must be"),
        ({"seed": "7"}, "seed must be a whole number, not '7'"),
        ({"mongos": 1.5}, "mongos must be a whole number"),
        ({"election_delay": "1s"}, "election_delay must be a number"),
        ({"auth": "yes"}, "auth must be True or False"),
        ({"set_name": 0}, "set_name must be a text"),
        ({"ports": 27017}, "ports must be a sequence, each a whole number, not 27017"),
        ({"ports": ["27017"]}, "ports must be a sequence, each a whole number"),
        ({"compressors": "zlib"}, "compressors must be a sequence, each a text, not 'zlib'"),
        ({"users": None}, "users must be a sequence, each a UserSpec"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_the_name_of_its_field(
    facts: dict[str, Any], refusal: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(refusal)}"):
        ClusterSpec(**facts)


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [
        ({"priority": "2"}, "priority must be a number, not '2'"),
        ({"votes": True}, "votes must be a whole number, not True"),
        ({"delay": "5s"}, "delay must be a whole number, not '5s'"),
        ({"tags": ["east"]}, "tags must be a document, not ['east']"),
    ],
)
def test_a_value_of_a_member_that_is_of_another_kind_is_refused_by_the_name_of_its_field(
    facts: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(refusal)}"):
        MemberSpec(**facts)


def test_lists_and_names_are_taken_for_tuples_and_topologies() -> None:
    user = UserSpec("ann", "secret")
    spec = ClusterSpec(
        topology="replset",  # type: ignore[arg-type]  # a name is taken too
        members=[MemberSpec(), MemberSpec()],
        ports=[0, 0],  # type: ignore[arg-type]  # a list is taken too
        users=[user],  # type: ignore[arg-type]  # as above
        compressors=["zlib"],  # type: ignore[arg-type]  # as above
    )
    assert spec.topology is Topology.REPLICA_SET
    assert (spec.members, spec.ports) == ((MemberSpec(), MemberSpec()), (0, 0))
    assert (spec.users, spec.compressors) == ((user,), ("zlib",))


def test_a_single_server_is_described_by_either_word() -> None:
    assert ClusterSpec.single(seed=7) == ClusterSpec.standalone(seed=7)


@pytest.mark.parametrize("begin", [fakeserver.start, BackgroundCluster])
def test_what_describes_no_deployment_is_refused_where_it_is_given(begin: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"by a ClusterSpec or a scenario, not by 3"):
        begin(3)


def test_with_instead_of_async_with_says_what_to_use() -> None:
    with (
        pytest.raises(TypeError, match=r"with fakeserver\.BackgroundCluster\(spec\)"),
        fakeserver.start(ClusterSpec.single()),
    ):
        pass


def test_a_coroutine_that_nobody_could_await_says_what_to_use() -> None:
    with BackgroundCluster(ClusterSpec.replica_set(3)) as server:
        for verb in (server.primary.kill, server.primary.shut_down, server.cluster.add_member):
            with pytest.raises(RuntimeError, match=r"pass it to `run`"):
                verb()
        assert server.primary.name
        server.run(server.primary.kill)


def test_the_coroutines_of_a_deployment_are_awaited_on_its_loop() -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.single()) as cluster:
            await cluster.nodes[0].kill()

    asyncio.run(main())
