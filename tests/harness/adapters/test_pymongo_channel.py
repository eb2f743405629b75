"""The way to servers that are not ours: what is taken of a connection string, and what is looked up."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pymongo.asynchronous import srv_resolver

import fakeserver
from fakeserver import ClusterSpec
from fakeserver.deployment.records.events import CommandFinished
from harness.adapters.pymongo import ChannelError
from harness.adapters.pymongo.channel import Channel, _way_in, resolved

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fakeserver.deployment.cluster import Cluster

    Zone = Callable[..., Awaitable[Any]]

BOUNDS = "serverselectiontimeoutms=5000&connecttimeoutms=5000&sockettimeoutms=30000"


@pytest.mark.parametrize(
    ("uri", "way_in"),
    [
        ("mongodb://a/", f"mongodb://a/?{BOUNDS}"),
        (
            "mongodb://u:p@a,b/?replicaSet=rs0&authSource=db&ssl=true&tlsCAFile=ca.pem&loadBalanced=false",
            "mongodb://u:p@a,b/?replicaSet=rs0&authSource=db&ssl=true&tlsCAFile=ca.pem&loadBalanced=false&"
            + BOUNDS,
        ),
        (
            "mongodb://a/?compressors=zstd&w=0&maxPoolSize=1&timeoutMS=5&readPreference=secondary&novelty=1",
            f"mongodb://a/?{BOUNDS}",
        ),
        (
            "mongodb://a/?serverSelectionTimeoutMS=100&connectTimeoutMS=1&socketTimeoutMS=2",
            "mongodb://a/?serverSelectionTimeoutMS=100&connectTimeoutMS=1&socketTimeoutMS=2",
        ),
    ],
)
def test_only_what_it_takes_to_get_in_counts_for_the_harness(uri: str, way_in: str) -> None:
    assert _way_in(uri) == way_in


def zone(*hosts: tuple[str, int], text: str = "") -> Zone:
    """Return a look-up of one name, which has these SRV records and this TXT record."""

    async def resolve(name: str, kind: str, **_: Any) -> Any:
        if kind == "TXT":
            return [SimpleNamespace(strings=[text.encode()])]
        assert name == "_mongodb._tcp.cluster.example.com"
        return [
            SimpleNamespace(target=SimpleNamespace(to_text=lambda host=host, **_: host), port=port)
            for host, port in hosts
        ]

    return resolve


@pytest.mark.parametrize(
    ("uri", "text", "found"),
    [
        (
            "mongodb+srv://b%40b:p%3A@cluster.example.com/shop?retryWrites=false",
            "authSource=admin&replicaSet=rs0",
            (
                "mongodb://b%40b:p%3A@a.example.com:1,b.example.com:2/shop"
                "?retryWrites=false&tls=true&authSource=admin&replicaSet=rs0"
            ),
        ),
        (
            "mongodb+srv://cluster.example.com/?tls=false&authSource=mine&srvMaxHosts=0",
            "authSource=admin",
            "mongodb://a.example.com:1,b.example.com:2/?tls=false&authSource=mine",
        ),
    ],
)
def test_hosts_and_options_are_looked_up_and_what_the_user_says_goes_first(
    monkeypatch: pytest.MonkeyPatch, uri: str, text: str, found: str
) -> None:
    records = zone(("a.example.com", 1), ("b.example.com", 2), text=text)
    monkeypatch.setattr(srv_resolver, "_resolve", records)
    assert asyncio.run(resolved(uri)) == found


def test_a_host_of_another_domain_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srv_resolver, "_resolve", zone(("a.example.org", 1)))
    with pytest.raises(ChannelError, match="Invalid SRV host"):
        asyncio.run(resolved("mongodb+srv://cluster.example.com/"))


def test_a_command_that_can_be_repeated_is_sent_again_when_its_connection_is_lost() -> None:
    async def scenario(channel: Channel, cluster: Cluster) -> None:
        _drop_connection(cluster, "distinct")
        reply = await channel.command(cluster.uri, "db", {"distinct": "c", "key": "_id"})
        assert reply["ok"] == 1
        _drop_connection(cluster, "insert")
        with pytest.raises(ChannelError, match="connection closed"):
            await channel.command(cluster.uri, "db", {"insert": "c", "documents": [{}]})
        assert _seen(cluster) == {"distinct": 2, "insert": 1}

    _on_a_standalone(scenario)


def test_a_command_goes_to_the_new_primary_when_the_old_one_refuses_it() -> None:
    async def scenario(channel: Channel, cluster: Cluster) -> None:
        data = {"failCommands": ["insert"], "errorCode": 10107}
        cluster.nodes[0].configure_fail_point("failCommand", mode={"times": 1}, data=data)
        reply = await channel.command(cluster.uri, "db", {"insert": "c", "documents": [{}]})
        assert reply["n"] == 1

    _on_a_standalone(scenario)


def _drop_connection(cluster: Cluster, command: str) -> None:
    data = {"failCommands": [command], "closeConnection": True}
    cluster.nodes[0].configure_fail_point("failCommand", mode={"times": 1}, data=data)


def _seen(cluster: Cluster) -> dict[str, int]:
    events = (record.event for record in cluster.journal)
    names = Counter(event.name for event in events if isinstance(event, CommandFinished))
    return {name: names[name] for name in ("distinct", "insert")}


def _on_a_standalone(scenario: Callable[[Channel, Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        channel = Channel()
        async with fakeserver.start(ClusterSpec.standalone()) as cluster:
            try:
                await scenario(channel, cluster)
            finally:
                await channel.aclose()

    asyncio.run(main())
