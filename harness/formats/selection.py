"""Server selection: suitable servers, staleness, the latency window, load, and round trip times."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from driver.concerns import ReadMode, ReadPreference
from driver.errors import ConfigurationError
from driver.sdam.description import ServerDescription, ServerType, TopologyDescription, TopologyType
from driver.sdam.round_trip import RoundTripTimes
from driver.sdam.selection import Selector, Window, least_loaded, suitable
from harness.formats.check import FormatCase, MismatchError, require
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_EVERYWHERE: Final = 1e9
"""A latency window, in seconds, that every server is in."""

_TOLERANCE: Final = 1e-9


def suitable_servers(name: str, document: Any) -> Iterable[FormatCase]:
    """Return the case of a file of `server_selection` or `max-staleness`."""
    yield FormatCase(name, partial(_check_suitable, document))


def in_window(name: str, document: Any) -> Iterable[FormatCase]:
    """Return the case of a file of `in_window`."""
    yield FormatCase(name, partial(_check_load, document, SeededRng(name)))


def round_trip_times(name: str, document: Any) -> Iterable[FormatCase]:
    """Return the case of a file of `rtt`."""
    yield FormatCase(name, partial(_check_average, document))


def _check_suitable(case: Mapping[str, Any]) -> None:
    topology = _topology(case["topology_description"])
    selector = Selector(
        case.get("operation", "read") == "write", _preference(case.get("read_preference", {}))
    )
    avoided = [server["address"] for server in case.get("deprioritized_servers", ())]
    heartbeat = case.get("heartbeatFrequencyMS", 10_000) / 1000
    try:
        every = suitable(topology, selector, Window(_EVERYWHERE, heartbeat), avoided)
        near = suitable(topology, selector, Window(heartbeat_frequency=heartbeat), avoided)
    except ConfigurationError as refusal:
        if not case.get("error"):
            raise MismatchError(f"expected no error, got: {refusal}") from refusal
        return
    if case.get("error"):
        raise MismatchError("expected an error, got none")
    require("suitable servers", _addresses(every), sorted(s["address"] for s in case["suitable_servers"]))
    require("in the window", _addresses(near), sorted(s["address"] for s in case["in_latency_window"]))


def _addresses(servers: Iterable[ServerDescription]) -> list[str]:
    return sorted(server.address for server in servers)


def _topology(data: Mapping[str, Any]) -> TopologyDescription:
    servers = [_server(each) for each in data["servers"]]
    return TopologyDescription(TopologyType(data["type"]), {server.address: server for server in servers})


def _server(data: Mapping[str, Any]) -> ServerDescription:
    last_write = data.get("lastWrite", {}).get("lastWriteDate")
    round_trip = data.get("avg_rtt_ms")
    return ServerDescription(
        data["address"],
        ServerType(data["type"]),
        round_trip_time=None if round_trip is None else round_trip / 1000,
        tags=data.get("tags", {}),
        last_write_date=None if last_write is None else _instant(last_write),
        last_update=data.get("lastUpdateTime", 0) / 1000,
        max_wire_version=data.get("maxWireVersion", 21),
    )


def _instant(value: datetime | int) -> datetime:
    """Return a date, which a file gives as such or in milliseconds."""
    return value if isinstance(value, datetime) else datetime.fromtimestamp(int(value) / 1000, tz=UTC)


def _preference(data: Mapping[str, Any]) -> ReadPreference:
    mode = data.get("mode", "Primary")
    return ReadPreference(
        ReadMode(mode[0].lower() + mode[1:]), tuple(data.get("tag_sets", ())), data.get("maxStalenessSeconds")
    )


def _check_load(case: Mapping[str, Any], dice: SeededRng) -> None:
    topology = _topology(case["topology_description"])
    load = {entry["address"]: entry["operation_count"] for entry in case["mocked_topology_state"]}
    nearest = Selector(writable=False, read_preference=ReadPreference(ReadMode.NEAREST))
    window = suitable(topology, nearest, Window())
    picked = dict.fromkeys(topology.servers, 0)
    for _ in range(case["iterations"]):
        picked[least_loaded(window, load, dice.random).address] += 1
    for address, frequency in case["outcome"]["expected_frequencies"].items():
        share = picked[address] / case["iterations"]
        tolerance = 0 if frequency in {0, 1} else case["outcome"]["tolerance"]
        if abs(share - frequency) > tolerance:
            raise MismatchError(f"{address}: expected a share of {frequency} ± {tolerance}, got {share}")


def _check_average(case: Mapping[str, Any]) -> None:
    times = RoundTripTimes(None if case["avg_rtt_ms"] == "NULL" else case["avg_rtt_ms"])
    times.add(case["new_rtt_ms"])
    if times.average is None or abs(times.average - case["new_avg_rtt"]) > _TOLERANCE:
        raise MismatchError(f"expected an average of {case['new_avg_rtt']}, got {times.average}")
