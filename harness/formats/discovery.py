"""Discovery: replies of servers and errors of operations in phases, and what is known after each of them.

The shell that applies transitions is driven with monitors that say nothing and pools that connect nowhere.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bson import ObjectId

from driver.cmap.options import PoolOptions
from driver.cmap.pool import Pool, PoolPorts
from driver.errors import DriverError, NetworkError, NetworkTimeoutError, ServerError
from driver.options import ClientOptions
from driver.sdam import transitions
from driver.sdam.description import ServerDescription, TopologyDescription, parse_hello
from driver.sdam.selection import Window
from driver.sdam.topology import Topology, TopologyPorts
from harness.formats.check import FormatCase, require
from harness.sim import run_virtual
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from driver.events import DriverEvent
    from harness.sim import World

_DISCOVERY_EVENTS: Final = ("topology", "server")
_TOPOLOGY_FIELDS: Final = {
    "setName": "set_name",
    "maxSetVersion": "max_set_version",
    "maxElectionId": "max_election_id",
    "logicalSessionTimeoutMinutes": "logical_session_timeout_minutes",
}
_SERVER_FIELDS: Final = {
    "setName": "set_name",
    "setVersion": "set_version",
    "electionId": "election_id",
    "logicalSessionTimeoutMinutes": "logical_session_timeout_minutes",
    "primary": "primary",
}


def phases(name: str, document: Any) -> Iterable[FormatCase]:
    """Return the case of a file of `server-discovery-and-monitoring`."""
    yield FormatCase(name, lambda: run_virtual(partial(_run, document)))


async def _run(case: Mapping[str, Any], world: World) -> None:
    discovery = _Discovery(case["uri"], world)
    try:
        for phase in case["phases"]:
            discovery.play(phase)
            outcome = phase.get("outcome", {})
            if "events" in outcome:
                discovery.check_events(outcome["events"])
            elif outcome:
                discovery.check(outcome)
    finally:
        await discovery.topology.aclose()


class _SilentMonitor:
    """Monitors nothing: the case says what was seen."""

    def open(self) -> None:
        """Do nothing."""

    def request_check(self) -> None:
        """Do nothing."""

    def cancel_check(self) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing."""


class _Discovery:
    def __init__(self, uri: str, world: World) -> None:
        self._published: list[DriverEvent] = []
        self._world = world
        options, _ = ClientOptions.of_uri(uri)
        initial = transitions.initial(
            options.seeds,
            set_name=options.replica_set,
            direct=options.direct_connection,
            load_balanced=options.load_balanced,
        )
        monitor: Any = _SilentMonitor()
        ports = TopologyPorts(
            clock=world.clock,
            rng=world.rng,
            publish=self._published.append,
            window=Window(),
            make_pool=self._pool,
            make_monitor=lambda _: monitor,
            pool_options=PoolOptions(load_balanced=options.load_balanced),
        )
        self.topology = Topology(initial, ports, ObjectId("0" * 24))
        self.topology.open()

    def _pool(self, address: str, options: PoolOptions) -> Pool:
        nobody: Any = None  # nothing is ever established
        return Pool(address, options, PoolPorts(self._world.clock, nobody, self._published.append, nobody))

    # --- what happens ---

    def play(self, phase: Mapping[str, Any]) -> None:
        """Let the replies of a phase arrive, and then the errors of its operations."""
        for address, hello in phase.get("responses", ()):
            self._see(address, hello)
        for failure in phase.get("applicationErrors", ()):
            self._fail(failure)

    def _see(self, address: str, hello: Mapping[str, Any]) -> None:
        known = self.topology.description.servers.get(address)
        now = self._world.clock.now()
        if hello:
            self.topology.on_check(parse_hello(address, hello, now=now))
        elif known is not None:
            self.topology.on_check(known.unknown(NetworkError("lost"), now=now))

    def _fail(self, failure: Mapping[str, Any]) -> None:
        server = self.topology.server(failure["address"])
        assert server is not None
        generation = failure.get("generation", server.pool.generation)
        self.topology.on_error(failure["address"], _error(failure), generation)

    # --- what is known ---

    def check(self, outcome: Mapping[str, Any]) -> None:
        """Compare all that is known with an outcome. Raises MismatchError."""
        description = self.topology.description
        require("topologyType", description.type.value, outcome["topologyType"])
        _check_fields(description, outcome, _TOPOLOGY_FIELDS)
        require("servers", sorted(description.servers), sorted(outcome["servers"]))
        if "compatible" in outcome:
            require("compatible", description.compatibility_error() is None, outcome["compatible"])
        for address, expected in outcome["servers"].items():
            self._check_server(description.servers[address], expected)

    def _check_server(self, server: ServerDescription, expected: Mapping[str, Any]) -> None:
        _check_type(server, expected["type"])
        _check_fields(server, expected, _SERVER_FIELDS)
        if (
            expected.get("maxWireVersion", 0) is None
        ):  # the driver's word for a version that is not known is 0
            require(f"{server.address} maxWireVersion", server.max_wire_version, 0)
        if "error" in expected:
            require(f"{server.address} error", str(server.error), expected["error"])
        if "topologyVersion" in expected:
            version = server.topology_version
            shown = None if version is None else version.to_document()
            require(f"{server.address} topologyVersion", shown, expected["topologyVersion"])
        if "pool" in expected:
            owner = self.topology.server(server.address)
            assert owner is not None
            require(f"{server.address} generation", owner.pool.generation, expected["pool"]["generation"])

    def check_events(self, expected: Sequence[Mapping[str, Any]]) -> None:
        """Compare what was published since the last phase. Raises MismatchError."""
        heard = [event for event in self._published if event.kind.startswith(_DISCOVERY_EVENTS)]
        self._published.clear()
        names = [_in_camel_case(next(iter(event))) for event in expected]
        require("events", [event.kind for event in heard], names)
        for event, wanted in zip(heard, expected, strict=True):
            _check_event(event, next(iter(wanted.values())))


def _error(failure: Mapping[str, Any]) -> DriverError:
    before = failure["when"] == "beforeHandshakeCompletes"
    if failure["type"] == "command":
        return ServerError.of_reply(failure["response"], failure["address"])
    kind = NetworkTimeoutError if failure["type"] == "timeout" else NetworkError
    labels = (Label.SYSTEM_OVERLOADED, Label.RETRYABLE) if before else ()
    return kind("lost", establishing=before, labels=labels)


def _check_fields(actual: object, expected: Mapping[str, Any], fields: Mapping[str, str]) -> None:
    for name, field in fields.items():
        if name in expected:
            require(f"{name} of {actual}", getattr(actual, field), expected[name])


def _check_type(server: ServerDescription, expected: str) -> None:
    """Compare types; this driver never guesses a primary, and may call a possible one Unknown."""
    wanted = "Unknown" if expected == "PossiblePrimary" else expected
    require(f"{server.address} type", server.type.value, wanted)


def _check_event(event: Any, expected: Mapping[str, Any]) -> None:
    if "address" in expected:
        require("address", event.address, expected["address"])
    for name in ("previousDescription", "newDescription"):
        if name in expected:
            field = "previous_description" if name.startswith("previous") else "new_description"
            _check_description(getattr(event, field), expected[name])


def _check_description(actual: Any, expected: Mapping[str, Any]) -> None:
    if not isinstance(actual, TopologyDescription):
        _check_described_server(actual, expected)
        return
    require("topologyType", actual.type.value, expected["topologyType"])
    require("setName", actual.set_name, expected.get("setName"))
    require("servers", sorted(actual.servers), sorted(server["address"] for server in expected["servers"]))
    for server in expected["servers"]:
        _check_described_server(actual.servers[server["address"]], server)


def _check_described_server(server: ServerDescription, expected: Mapping[str, Any]) -> None:
    require("address", server.address, expected["address"])
    _check_type(server, expected["type"])
    _check_fields(server, {"setName": None, "primary": None, **expected}, _SERVER_FIELDS)
    for name in ("hosts", "passives", "arbiters"):
        require(f"{server.address} {name}", list(getattr(server, name)), expected[name])


def _in_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
