"""Server selection: suitable servers, staleness, the latency window, load, and round trip times.

These specifications come with tests of pure functions: a topology as a document, a question, and the answer.
So the driver's functions are called directly, with no clock, server or connection. A test gives averages in
milliseconds; the driver counts in seconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from driver.concerns import ReadMode, ReadPreference
from driver.errors import ConfigurationError
from driver.sdam.description import (
    RoundTripTimes,
    ServerDescription,
    ServerType,
    TopologyDescription,
    TopologyType,
)
from driver.sdam.selection import Selector, Window, least_loaded, suitable
from harness.formats.case import Runs, failure, require
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.formats.case import Notes
    from mongowire.documents.marks import Marked

# "Suitable" means before the latency window, which one function of the driver decides together with it.
_EVERYWHERE: Final = 1e9
"""A latency window, in seconds, that every server is in."""

# Milliseconds: the tests write their averages to the last digit, so that only rounding may differ.
_TOLERANCE: Final = 1e-9


def suitable_servers(case: Marked) -> Runs:
    """Return what runs a case of Server Selection or Max Staleness."""
    return Runs(partial(_check_suitable, case))


def in_window(case: Marked) -> Runs:
    """Return what runs a case that counts how often each server is picked."""
    return Runs(partial(_check_load, case))


def round_trip_times(case: Marked) -> Runs:
    """Return what runs a case of averages of round trip times."""
    return Runs(partial(_check_average, case))


def _check_suitable(case: Marked, _notes: Notes) -> None:
    value = case.value
    topology = _topology(value["topology_description"])
    data = value.get("read_preference", {})
    mode = data.get("mode", "Primary")
    preference = ReadPreference(
        ReadMode(mode[0].lower() + mode[1:]), tuple(data.get("tag_sets", ())), data.get("maxStalenessSeconds")
    )
    # A case without an operation is about reads, as in Max Staleness.
    selector = Selector(value.get("operation", "read") == "write", preference)
    avoided = [server["address"] for server in value.get("deprioritized_servers", ())]
    heartbeat = value.get("heartbeatFrequencyMS", 10_000) / 1000
    try:
        every = suitable(topology, selector, Window(_EVERYWHERE, heartbeat), avoided)
        near = suitable(topology, selector, Window(heartbeat_frequency=heartbeat), avoided)
    except ConfigurationError as refusal:
        if not value.get("error"):
            raise failure(case, f"expected no error, got: {refusal}") from refusal
        return
    if value.get("error"):
        raise failure(case["error"], "expected an error, got none")
    for name, found in (("suitable_servers", every), ("in_latency_window", near)):
        wanted = sorted(server["address"] for server in value[name])
        require(case[name], sorted(server.address for server in found), wanted=wanted)


def _topology(data: Mapping[str, Any]) -> TopologyDescription:
    servers = [_server(each) for each in data["servers"]]
    return TopologyDescription(TopologyType(data["type"]), {server.address: server for server in servers})


def _server(data: Mapping[str, Any]) -> ServerDescription:
    last_write = data.get("lastWrite", {}).get("lastWriteDate")
    if last_write is not None and not isinstance(last_write, datetime):  # some files have milliseconds
        last_write = datetime.fromtimestamp(int(last_write) / 1000, tz=UTC)
    round_trip = data.get("avg_rtt_ms")
    return ServerDescription(
        data["address"],
        ServerType(data["type"]),
        round_trip_time=None if round_trip is None else round_trip / 1000,
        tags=data.get("tags", {}),
        last_write_date=last_write,
        last_update=data.get("lastUpdateTime", 0) / 1000,
        max_wire_version=data.get("maxWireVersion", 21),
    )


def _check_load(case: Marked, _notes: Notes) -> None:
    # Seeded by the file: the shares of a run are those of each other one.
    value, rng = case.value, SeededRng(f"in_window/{case.path.stem}")
    topology = _topology(value["topology_description"])
    load = {entry["address"]: entry["operation_count"] for entry in value["mocked_topology_state"]}
    nearest = Selector(writable=False, read_preference=ReadPreference(ReadMode.NEAREST))
    window = suitable(topology, nearest, Window())
    picked = dict.fromkeys(topology.servers, 0)
    for _ in range(value["iterations"]):
        picked[least_loaded(window, load, rng.random).address] += 1
    frequencies = case["outcome"]["expected_frequencies"]
    for address, frequency in frequencies.value.items():
        share = picked.get(address, 0) / value["iterations"]
        # Never and always are exact, however small the sample.
        tolerance = 0 if frequency in {0, 1} else value["outcome"]["tolerance"]
        if abs(share - frequency) > tolerance:
            why = f"expected a share of {frequency} ± {tolerance}, got {share}"
            raise failure(frequencies[address], why, wanted=frequency, actual=share)


def _check_average(case: Marked, _notes: Notes) -> None:
    value = case.value
    # The test's word for no average yet.
    times = RoundTripTimes(None if value["avg_rtt_ms"] == "NULL" else value["avg_rtt_ms"])
    times.add(value["new_rtt_ms"])
    if times.average is None or abs(times.average - value["new_avg_rtt"]) > _TOLERANCE:
        require(case["new_avg_rtt"], times.average, of="average")
