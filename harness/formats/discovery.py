"""Discovery: replies of servers and errors of operations in phases, and what is known after each of them.

The shell that applies transitions is driven with monitors that say nothing and pools that connect nowhere.

A case is a list of phases. In each, replies to hello arrive and operations fail, in the order of the file;
then an outcome states what the client must know, or which events it must have published. The driver's
`Topology` is the real one, with its transitions, pools and events. Only what would connect is replaced:
monitors do nothing, since the case says what they saw, and pools establish nothing, since only their
generations are asked for. Time is virtual and stands still.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bson import ObjectId

from driver.cmap.pool import Pool, PoolPorts
from driver.cmap.state import PoolOptions
from driver.errors import DriverError, NetworkError, NetworkTimeoutError, ServerError
from driver.options import ClientOptions
from driver.sdam import transitions
from driver.sdam.description import ServerDescription, TopologyDescription, parse_hello
from driver.sdam.selection import Window
from driver.sdam.topology import Topology, TopologyPorts
from harness.adapters.reference.results import event_of
from harness.formats.case import Runs, require
from harness.unified.errors import ScenarioError
from harness.unified.model import Operation
from harness.world.virtual import run_virtual
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.events import DriverEvent
    from harness.formats.case import Notes
    from harness.world.virtual import World
    from mongowire.documents.marks import Marked

_DISCOVERY_EVENTS: Final = ("topology", "server")
# Names of the tests, and those of the driver's descriptions.
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
_WIRE_VERSIONS: Final = {"minWireVersion": "min_wire_version", "maxWireVersion": "max_wire_version"}
_DESCRIPTIONS: Final = {
    "previousDescription": "previous_description",
    "newDescription": "new_description",
}


def runs(case: Marked) -> Runs:
    """Return what runs a case of Server Discovery and Monitoring."""
    return Runs(lambda notes: run_virtual(partial(_run, case, notes)))


async def _run(case: Marked, notes: Notes, world: World) -> None:
    discovery = _Discovery(case.value["uri"], world, notes)
    try:
        for phase in case["phases"].items():
            replies = {name: value for name, value in phase.value.items() if name != "outcome"}
            # A timeline shows a phase as an operation on the topology.
            operation = Operation("phase", "topology", replies, phase.location)
            with notes.account.step(operation, world.clock.now):
                discovery.play(phase)
            discovery.check(phase["outcome"])
    finally:
        notes.account.end(world.clock.now())
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
    def __init__(self, uri: str, world: World, notes: Notes) -> None:
        self._published: list[DriverEvent] = []
        self._notes = notes
        self._world = world
        options, _ = ClientOptions.of_uri(uri)
        # As a client does: the string decides the type that discovery begins with.
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
            publish=self._publish,
            window=Window(),
            make_pool=self._pool,
            make_monitor=lambda _: monitor,
            pool_options=PoolOptions(load_balanced=options.load_balanced),
        )
        self.topology = Topology(initial, ports, ObjectId("0" * 24))
        self.topology.open()

    def _pool(self, address: str, options: PoolOptions) -> Pool:
        nobody: Any = None  # nothing is ever established
        return Pool(address, options, PoolPorts(self._world.clock, nobody, self._publish, nobody))

    def _publish(self, event: DriverEvent) -> None:
        self._published.append(event)
        self._notes.heard.append(event_of(event, self._world.clock.now()))

    # --- what happens ---

    def play(self, phase: Marked) -> None:
        """Let the replies of a phase arrive, and then the errors of its operations."""
        now = self._world.clock.now()
        for address, hello in phase.value.get("responses", ()):
            known = self.topology.description.servers.get(address)
            if hello:
                self.topology.on_check(parse_hello(address, hello, now=now))
            elif known is not None:  # an empty reply stands for a network error
                self.topology.on_check(known.unknown(NetworkError("lost"), now=now))
        failures = phase.get("applicationErrors")
        for failure in failures.items() if failures else ():
            address = failure.value["address"]
            server = self.topology.server(address)
            if server is None:
                raise ScenarioError(
                    f"no server {address} is known by now", location=failure["address"].location
                )
            # An error of an older generation is about connections that are gone, and must change nothing.
            # Without one it is of the newest.
            generation = failure.value.get("generation", server.pool.generation)
            self.topology.on_error(address, _error(failure.value), generation)

    # --- what is known ---

    def check(self, outcome: Marked) -> None:
        """Compare with an outcome. Raises CaseFailedError."""
        if (events := outcome.get("events")) is not None:
            # What was published since the last phase that asked.
            heard = [event for event in self._published if event.kind.startswith(_DISCOVERY_EVENTS)]
            # Events of pools are not part of these tests, and go with the others.
            self._published.clear()
            # The tests write kinds with underscores, and the driver like the specification of events.
            names = [_in_camel_case(next(iter(event))) for event in events.value]
            require(events, [event.kind for event in heard], wanted=names)
            for event, wanted in zip(heard, events.items(), strict=True):
                _check_event(event, wanted[next(iter(wanted.value))])
        if (servers := outcome.get("servers")) is not None:
            self._check_topology(outcome, servers)

    def _check_topology(self, outcome: Marked, servers: Marked) -> None:
        description = self.topology.description
        require(outcome["topologyType"], description.type.value)
        _check_fields(description, outcome, _TOPOLOGY_FIELDS)
        require(servers, sorted(description.servers), wanted=sorted(servers.value))
        if (compatible := outcome.get("compatible")) is not None:
            require(compatible, description.compatibility_error is None)
        for address in servers.value:
            server = description.servers[address]
            expected = servers[address]
            _check_known(server, expected)
            if (error := expected.get("error")) is not None:
                require(error, str(server.error))
            if (pool := expected.get("pool")) is not None:
                owner = self.topology.server(server.address)
                require(pool, None if owner is None else {"generation": owner.pool.generation})


def _error(failure: Mapping[str, Any]) -> DriverError:
    """Return the error that an operation would have met.

    An error of the network before the handshake is over has the labels that client backpressure gives it, as
    a sign of overload. A reply of the server has its own code and labels.
    """
    before = failure["when"] == "beforeHandshakeCompletes"
    if failure["type"] == "command":
        return ServerError.of_reply(failure["response"], failure["address"])
    kind = NetworkTimeoutError if failure["type"] == "timeout" else NetworkError
    labels = (Label.SYSTEM_OVERLOADED, Label.RETRYABLE) if before else ()
    return kind("lost", establishing=before, labels=labels)


def _check_known(server: ServerDescription, expected: Marked) -> None:
    """Compare the known fields of a server with those that are expected."""
    # This driver never guesses a primary, and may call a possible one Unknown.
    of_type = expected["type"]
    wanted = "Unknown" if of_type.value == "PossiblePrimary" else of_type.value
    require(of_type, server.type.value, wanted=wanted)
    _check_fields(server, expected, _SERVER_FIELDS)
    for name, field in _WIRE_VERSIONS.items():
        if (version := expected.get(name)) is not None:
            # The driver's word for a version that is not known is 0.
            require(version, getattr(server, field), wanted=version.value or 0)
    if (version := expected.get("topologyVersion")) is not None:
        known = server.topology_version
        require(version, None if known is None else known.to_document())


def _check_fields(actual: object, expected: Marked, fields: Mapping[str, str]) -> None:
    for name, field in fields.items():
        if (value := expected.get(name)) is not None:
            require(value, getattr(actual, field))


def _check_event(event: Any, expected: Marked) -> None:
    if (address := expected.get("address")) is not None:
        require(address, event.address)
    for name, field in _DESCRIPTIONS.items():
        if (description := expected.get(name)) is not None:
            _check_description(getattr(event, field), description)


def _check_description(actual: Any, expected: Marked) -> None:
    """Compare a description in an event, which is complete: a server that is not listed is one too many."""
    if not isinstance(actual, TopologyDescription):
        _check_described_server(actual, expected)
        return
    require(expected["topologyType"], actual.type.value)
    _check_or_none(actual, expected, "setName", "set_name")
    servers = expected["servers"]
    require(servers, sorted(actual.servers), wanted=sorted(each["address"] for each in servers.value))
    for server in servers.items():
        _check_described_server(actual.servers[server.value["address"]], server)


def _check_described_server(server: ServerDescription, expected: Marked) -> None:
    require(expected["address"], server.address)
    _check_known(server, expected)
    for name in ("setName", "primary"):
        _check_or_none(server, expected, name, _SERVER_FIELDS[name])
    for name in ("hosts", "passives", "arbiters"):
        require(expected[name], list(getattr(server, name)))


def _check_or_none(actual: object, expected: Marked, name: str, field: str) -> None:
    """Compare a field of a description in an event: one that is left out there is not known."""
    require(expected.get(name) or expected, getattr(actual, field), wanted=expected.value.get(name), of=name)


def _in_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
