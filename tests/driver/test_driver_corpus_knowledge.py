"""The public data for what a driver knows: discovery, selection, staleness, options, connection strings.

Only the parts of the driver that decide are driven; monitors and pools do no I/O here.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId, json_util

from driver.cmap.pool import Pool, PoolPorts
from driver.cmap.state import PoolOptions
from driver.concerns import ReadMode, ReadPreference
from driver.errors import (
    ConfigurationError,
    DriverError,
    NetworkError,
    NetworkTimeoutError,
    ServerError,
)
from driver.options import ClientOptions
from driver.sdam import transitions
from driver.sdam.description import (
    ServerDescription,
    ServerType,
    TopologyDescription,
    TopologyType,
    parse_hello,
)
from driver.sdam.round_trip import RoundTripTimes
from driver.sdam.selection import Selector, Window, least_loaded, suitable
from driver.sdam.topology import Topology, TopologyPorts
from driver.uri import parse_uri
from mongowire.codes import Label
from mongowire.system import SeededRng, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from driver.events import DriverEvent

pytestmark = pytest.mark.corpus


def load(path: Path) -> Any:
    return json.loads(path.read_text(), object_hook=json_util.object_hook)


def cases(corpus: Path, *folders: str) -> Iterator[tuple[str, Any]]:
    found = 0
    for folder in folders:
        for path in sorted((corpus / folder).rglob("*.json")):
            found += 1
            yield f"{path.parent.name}/{path.stem}", load(path)
    assert found


# --- discovery ---


@dataclass
class SilentMonitor:
    """Nothing is monitored: the data says what was seen."""

    checks: int = 0

    def open(self) -> None:
        """Do nothing."""

    def request_check(self) -> None:
        self.checks += 1

    def cancel_check(self) -> None:
        self.checks += 1

    async def aclose(self) -> None:
        """Do nothing."""


@dataclass
class Discovery:
    uri: str
    events: list[DriverEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        options, _ = ClientOptions.of_uri(self.uri)
        initial = transitions.initial(
            options.seeds,
            set_name=options.replica_set,
            direct=options.direct_connection,
            load_balanced=options.load_balanced,
        )
        ports = TopologyPorts(
            clock=SystemClock(),
            rng=SeededRng(0),
            publish=self.events.append,
            window=Window(),
            make_pool=self._pool,
            make_monitor=lambda _address: SilentMonitor(),  # type: ignore[arg-type,return-value]
            pool_options=PoolOptions(load_balanced=options.load_balanced),
        )
        self.topology = Topology(initial, ports, ObjectId("0" * 24))

    def _pool(self, address: str, options: PoolOptions) -> Pool:
        ports = PoolPorts(SystemClock(), None, self.events.append, lambda *_: None)  # type: ignore[arg-type]
        return Pool(address, options, ports)

    def see(self, address: str, hello: dict[str, Any]) -> None:
        known = self.topology.description.servers.get(address)
        if hello:
            self.topology.on_check(parse_hello(address, hello, now=0.0))
        elif known is not None:
            self.topology.on_check(known.unknown(NetworkError("lost"), now=0.0))

    def fail(self, failure: dict[str, Any]) -> None:
        server = self.topology.server(failure["address"])
        assert server is not None
        generation = failure.get("generation", server.pool.generation)
        self.topology.on_error(failure["address"], application_error(failure), generation)


def application_error(failure: dict[str, Any]) -> DriverError:
    before = failure["when"] == "beforeHandshakeCompletes"
    if failure["type"] == "command":
        return ServerError.of_reply(failure["response"], failure["address"])
    kind = NetworkTimeoutError if failure["type"] == "timeout" else NetworkError
    labels = (Label.SYSTEM_OVERLOADED, Label.RETRYABLE) if before else ()
    return kind("lost", establishing=before, labels=labels)


def check_outcome(discovery: Discovery, outcome: dict[str, Any]) -> None:
    description = discovery.topology.description
    assert description.type.value == outcome["topologyType"]
    assert description.set_name == outcome.get("setName")
    assert sorted(description.servers) == sorted(outcome["servers"])
    for key, value in (
        ("maxSetVersion", description.max_set_version),
        ("maxElectionId", description.max_election_id),
        ("logicalSessionTimeoutMinutes", description.logical_session_timeout_minutes),
    ):
        if key in outcome:
            assert value == outcome[key], key
    if "compatible" in outcome:
        assert (description.compatibility_error() is None) == outcome["compatible"]
    for address, expected in outcome["servers"].items():
        check_server(discovery, description.servers[address], expected)


def check_server(discovery: Discovery, server: ServerDescription, expected: dict[str, Any]) -> None:
    kind = "Unknown" if expected["type"] == "PossiblePrimary" else expected["type"]
    assert server.type.value == kind
    assert server.set_name == expected.get("setName")
    for key, value in (("setVersion", server.set_version), ("electionId", server.election_id)):
        if key in expected:
            assert value == expected[key], key
    if "topologyVersion" in expected:
        version = server.topology_version
        shown = None if version is None else {"processId": version.process_id, "counter": version.counter}
        assert shown == expected["topologyVersion"]
    if "pool" in expected:
        owner = discovery.topology.server(server.address)
        assert owner is not None
        assert owner.pool.generation == expected["pool"]["generation"]


def test_discovery_reaches_the_outcome_of_every_phase(corpus: Path) -> None:
    async def run(case: dict[str, Any]) -> None:
        discovery = Discovery(case["uri"])
        discovery.topology.open()
        for phase in case["phases"]:
            for address, hello in phase.get("responses", ()):
                discovery.see(address, hello)
            for failure in phase.get("applicationErrors", ()):
                discovery.fail(failure)
            if "outcome" in phase and "events" not in phase["outcome"]:
                check_outcome(discovery, phase["outcome"])
        await discovery.topology.aclose()

    folders = [
        f"server-discovery-and-monitoring/tests/{name}" for name in ("rs", "sharded", "single", "errors")
    ]
    for name, case in cases(corpus, *folders, "server-discovery-and-monitoring/tests/load-balanced"):
        try:
            asyncio.run(run(case))
        except AssertionError as failure:
            pytest.fail(f"{name}: {case['description']}: {failure}")


EVENT_NAMES = {
    "topology_opening_event": "topologyOpeningEvent",
    "topology_closed_event": "topologyClosedEvent",
    "topology_description_changed_event": "topologyDescriptionChangedEvent",
    "server_opening_event": "serverOpeningEvent",
    "server_closed_event": "serverClosedEvent",
    "server_description_changed_event": "serverDescriptionChangedEvent",
}


def test_discovery_publishes_the_events_of_every_phase(corpus: Path) -> None:
    async def run(case: dict[str, Any]) -> None:
        discovery = Discovery(case["uri"])
        discovery.topology.open()
        for phase in case["phases"]:
            for address, hello in phase["responses"]:
                discovery.see(address, hello)
            told = [event for event in discovery.events if event.kind in EVENT_NAMES.values()]
            discovery.events.clear()
            expected = phase["outcome"]["events"]
            assert [event.kind for event in told] == [EVENT_NAMES[next(iter(e))] for e in expected]
            for event, wanted in zip(told, expected, strict=True):
                check_event(event, next(iter(wanted.values())))
        await discovery.topology.aclose()

    for name, case in cases(corpus, "server-discovery-and-monitoring/tests/monitoring"):
        try:
            asyncio.run(run(case))
        except AssertionError as failure:
            pytest.fail(f"{name}: {failure}")


def check_event(event: Any, expected: dict[str, Any]) -> None:
    if "address" in expected:
        assert event.address == expected["address"]
    if "newDescription" not in expected:
        return
    for mine, wanted in (
        (event.new_description, expected["newDescription"]),
        (event.previous_description, expected["previousDescription"]),
    ):
        if isinstance(mine, TopologyDescription):
            assert mine.type.value == wanted["topologyType"]
            assert sorted(mine.servers) == sorted(server["address"] for server in wanted["servers"])
        else:
            assert mine.type.value == wanted["type"]
            assert list(mine.hosts) == wanted.get("hosts", [])


# --- selection ---


def server_of(data: dict[str, Any]) -> ServerDescription:
    last_write = data.get("lastWrite", {}).get("lastWriteDate")
    return ServerDescription(
        data["address"],
        ServerType(data["type"]),
        round_trip_time=None if data.get("avg_rtt_ms") is None else data["avg_rtt_ms"] / 1000,
        tags=data.get("tags", {}),
        last_write_date=None if last_write is None else datetime.fromtimestamp(millis(last_write), tz=UTC),
        last_update=data.get("lastUpdateTime", 0) / 1000,
        max_wire_version=data.get("maxWireVersion", 21),
    )


def millis(value: Any) -> float:
    return value.timestamp() if isinstance(value, datetime) else float(value) / 1000


def preference_of(data: dict[str, Any]) -> ReadPreference:
    mode = data.get("mode", "primary")
    tags = tuple(data.get("tag_sets", ()))
    return ReadPreference(
        ReadMode(mode[0].lower() + mode[1:]),
        () if tags == ({},) else tags,
        data.get("maxStalenessSeconds"),
    )


def test_selection_finds_the_suitable_servers_and_those_in_the_latency_window(corpus: Path) -> None:
    for name, case in cases(corpus, "server-selection/tests/server_selection", "max-staleness/tests"):
        heartbeat = case.get("heartbeatFrequencyMS", 10_000) / 1000
        servers = [server_of(data) for data in case["topology_description"]["servers"]]
        topology = TopologyDescription(
            TopologyType(case["topology_description"]["type"]), {s.address: s for s in servers}
        )
        preference = preference_of(case.get("read_preference", {}))
        selector = Selector(case.get("operation", "read") == "write", preference)
        avoided = [server["address"] for server in case.get("deprioritized_servers", ())]
        if case.get("error"):
            with pytest.raises(ConfigurationError):
                suitable(topology, selector, Window(0.015, heartbeat), avoided)
            continue
        found = suitable(topology, selector, Window(0.015, heartbeat), avoided)
        every = suitable(topology, selector, Window(1e9, heartbeat), avoided)
        assert sorted(s.address for s in every) == sorted(s["address"] for s in case["suitable_servers"]), (
            name
        )
        assert sorted(s.address for s in found) == sorted(s["address"] for s in case["in_latency_window"]), (
            name
        )


def test_the_less_busy_of_two_servers_is_taken_as_often_as_expected(corpus: Path) -> None:
    for name, case in cases(corpus, "server-selection/tests/in_window"):
        servers = [server_of(data) for data in case["topology_description"]["servers"]]
        load = {entry["address"]: entry["operation_count"] for entry in case["mocked_topology_state"]}
        topology = TopologyDescription(
            TopologyType(case["topology_description"]["type"]), {s.address: s for s in servers}
        )
        dice = SeededRng(name)
        picked: dict[str, int] = {}
        window = suitable(
            topology, Selector(writable=False, read_preference=ReadPreference(ReadMode.NEAREST)), Window()
        )
        for _ in range(case["iterations"]):
            chosen = least_loaded(window, load, dice.random).address
            picked[chosen] = picked.get(chosen, 0) + 1
        for address, frequency in case["outcome"]["expected_frequencies"].items():
            share = picked.get(address, 0) / case["iterations"]
            tolerance = 0 if frequency in (0, 1) else case["outcome"]["tolerance"]
            assert abs(share - frequency) <= tolerance, name


def test_round_trip_times_are_averaged_as_specified(corpus: Path) -> None:
    for name, case in cases(corpus, "server-selection/tests/rtt"):
        before = case["avg_rtt_ms"]
        times = RoundTripTimes(None if before == "NULL" else before)
        times.add(case["new_rtt_ms"])
        assert times.average == pytest.approx(case["new_avg_rtt"]), name


# --- options and connection strings ---


UNSUPPORTED_HERE = (
    "does not authenticate",
    "does not resolve",
    "does not use proxies",
)


def read_options(uri: str) -> tuple[tuple[str, ...] | None, str]:
    """Return the warnings, or None and why the string was refused."""
    try:
        _, warnings = ClientOptions.of_uri(uri)
    except ConfigurationError as refusal:
        return None, str(refusal)
    return warnings, ""


def test_options_are_taken_ignored_with_a_warning_or_refused(corpus: Path) -> None:
    for name, file in cases(corpus, "uri-options/tests"):
        for case in file["tests"]:
            where = f"{name}: {case['description']}"
            warnings, refusal = read_options(case["uri"])
            if any(text in refusal for text in UNSUPPORTED_HERE):
                continue
            assert (warnings is not None) == case["valid"], f"{where}: {refusal}"
            if warnings is not None:
                assert bool(warnings) == bool(case["warning"]), f"{where}: {warnings}"


def test_connection_strings_are_taken_apart(corpus: Path) -> None:
    for name, file in cases(corpus, "connection-string/tests"):
        for case in file["tests"]:
            where = f"{name}: {case['description']}"
            if not case["valid"]:
                assert read_options(case["uri"])[0] is None, where
                continue
            parsed = parse_uri(case["uri"])
            if case.get("hosts"):
                assert list(parsed.hosts) == [expected_host(host) for host in case["hosts"]], where
            if case.get("auth"):
                assert parsed.username == case["auth"]["username"], where
                assert parsed.password == case["auth"]["password"], where


def test_credentials_are_read_from_connection_strings(corpus: Path) -> None:
    for name, file in cases(corpus, "auth/tests/legacy"):
        for case in file["tests"]:
            where = f"{name}: {case['description']}"
            warnings, refusal = read_options(case["uri"])
            if warnings is None:
                assert not case["valid"] or "does not authenticate by" in refusal, f"{where}: {refusal}"
                continue
            assert case["valid"], where
            expected, found = case.get("credential"), ClientOptions.of_uri(case["uri"])[0].credential
            assert (found is None) == (expected is None), where
            if found is not None:
                told = (found.username, found.password, found.source, found.mechanism)
                names = ("username", "password", "source", "mechanism")
                assert told == tuple(expected[key] for key in names), where


def expected_host(host: dict[str, Any]) -> str:
    name, port = host["host"], host.get("port") or 27017
    if host["type"] == "unix":
        return str(name)
    return f"[{name}]:{port}" if host["type"] == "ip_literal" else f"{name.lower()}:{port}"
