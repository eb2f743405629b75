"""Server Selection: the servers that are suitable for an operation, and the one of them that is taken.

Pure functions from left to right: candidates, staleness, tags, deprioritized servers, latency window, load.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, TypeAlias

from driver.concerns import PRIMARY, ReadMode, ReadPreference
from driver.errors import ConfigurationError
from driver.sdam.description import REPLICA_SET_TYPES, ServerType, TopologyType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from driver.sdam.description import ServerDescription, TopologyDescription

    Servers: TypeAlias = Sequence[ServerDescription]

IDLE_WRITE_PERIOD = 10.0
"""Seconds after which an idle primary writes something, so that lag can be seen."""

SMALLEST_MAX_STALENESS = 90.0
"""Seconds; a smaller maxStalenessSeconds would shut members out by chance."""


@dataclass(frozen=True, slots=True)
class Window:
    """The client's options that selection needs, in seconds."""

    local_threshold: float = 0.015
    heartbeat_frequency: float = 10.0


@dataclass(frozen=True, slots=True)
class Selector:
    """What an operation needs: a server for writes, or one that a read preference allows.

    With an `address` it needs that very server, as the next batch of a cursor does.
    """

    writable: bool = True
    read_preference: ReadPreference = field(default_factory=ReadPreference)
    address: str | None = None

    def __str__(self) -> str:
        if self.address is not None:
            return self.address
        return "a writable server" if self.writable else f"{self.read_preference.to_document()}"


WRITABLE = Selector()


def suitable(
    topology: TopologyDescription, selector: Selector, window: Window, deprioritized: Collection[str] = ()
) -> Servers:
    """Return the servers that the operation may go to, within the latency window.

    Deprioritized servers are left out unless no other is suitable. Raises ConfigurationError for a
    maxStalenessSeconds that is too small.
    """
    if selector.address is not None:
        return [server for server in topology.known_servers if server.address == selector.address]
    preference = PRIMARY if selector.writable else selector.read_preference
    _check_max_staleness(topology, preference, window)
    # Before tags and staleness are looked at, not after: with the preferred servers left out, the next best
    # by the same preference is a better choice than the one that has just failed.
    if deprioritized:
        avoiding = _eligible(topology, preference, window, frozenset(deprioritized))
        if avoiding:
            return in_latency_window(avoiding, window)
    return in_latency_window(_eligible(topology, preference, window, frozenset()), window)


def _eligible(
    topology: TopologyDescription, preference: ReadPreference, window: Window, avoided: frozenset[str]
) -> Servers:
    if topology.type is TopologyType.UNKNOWN:
        return ()
    # The user named this very server: neither its role nor the read preference keeps an operation away.
    if topology.type is TopologyType.SINGLE:
        return topology.known_servers
    candidates = [server for server in topology.data_bearing if server.address not in avoided]
    if topology.type in REPLICA_SET_TYPES:
        return _replica_set_members(candidates, preference, window)
    return candidates


def _replica_set_members(candidates: Servers, preference: ReadPreference, window: Window) -> Servers:
    """Server Selection: Multi-threaded or asynchronous drivers, by mode."""
    primaries = [server for server in candidates if server.type is ServerType.RS_PRIMARY]
    secondaries = [server for server in candidates if server.type is ServerType.RS_SECONDARY]

    def filtered(servers: Servers) -> Servers:
        limit = preference.max_staleness_seconds
        if limit is not None and limit >= 0:
            staleness = _staleness(primaries, secondaries, window)
            servers = [server for server in servers if staleness(server) <= limit]
        return _first_tag_match(servers, preference.tag_sets)

    match preference.mode:
        case ReadMode.PRIMARY:
            return primaries
        case ReadMode.PRIMARY_PREFERRED:
            return primaries or filtered(secondaries)  # tags and staleness are for secondaries
        case ReadMode.SECONDARY:
            return filtered(secondaries)
        case ReadMode.SECONDARY_PREFERRED:
            return filtered(secondaries) or primaries
        case ReadMode.NEAREST:
            return filtered([*primaries, *secondaries])


def _staleness(
    primaries: Servers, secondaries: Servers, window: Window
) -> Callable[[ServerDescription], float]:
    """Return an estimate of how far a member lags, in seconds (Max Staleness: Staleness Formula)."""
    if primaries:
        primary = primaries[0]

        def behind_primary(server: ServerDescription) -> float:
            if server.type is ServerType.RS_PRIMARY:
                return 0.0
            # Both dates are as old as the checks that brought them, which this takes out. A heartbeat is
            # added for what may have happened since.
            lag = _since_write(server) - _since_write(primary)
            return lag + window.heartbeat_frequency

        return behind_primary
    newest = max((_last_write(server) for server in secondaries), default=0.0)
    return lambda server: newest - _last_write(server) + window.heartbeat_frequency


def _since_write(server: ServerDescription) -> float:
    return server.last_update - _last_write(server)


def _last_write(server: ServerDescription) -> float:
    date = server.last_write_date
    return 0.0 if date is None else date.replace(tzinfo=UTC).timestamp()


def _first_tag_match(servers: Servers, tag_sets: Sequence[Mapping[str, str]]) -> Servers:
    """Return the servers that match the first tag set that any matches."""
    if not tag_sets:
        return servers
    for tags in tag_sets:
        matching = [s for s in servers if all(s.tags.get(name) == value for name, value in tags.items())]
        if matching:
            return matching
    return ()


def _check_max_staleness(topology: TopologyDescription, preference: ReadPreference, window: Window) -> None:
    """Max Staleness: maxStalenessSeconds has a smallest value, which depends on the heartbeat."""
    limit = preference.max_staleness_seconds
    if limit is None or limit < 0 or topology.type not in REPLICA_SET_TYPES:
        return
    if preference.mode is ReadMode.PRIMARY:
        raise ConfigurationError("maxStalenessSeconds cannot be used with read preference mode primary")
    smallest = max(SMALLEST_MAX_STALENESS, window.heartbeat_frequency + IDLE_WRITE_PERIOD)
    if limit < smallest:
        raise ConfigurationError(
            f"maxStalenessSeconds is {limit}, but must be at least {smallest:g}: the larger of "
            f"{SMALLEST_MAX_STALENESS:g} and heartbeatFrequencyMS plus {IDLE_WRITE_PERIOD:g} seconds"
        )


def in_latency_window(servers: Servers, window: Window) -> Servers:
    """Return the servers whose round trip is at most localThresholdMS longer than the shortest."""
    times = [server.round_trip_time for server in servers if server.round_trip_time is not None]
    if len(servers) <= 1 or not times:
        return servers
    limit = min(times) + window.local_threshold
    return [s for s in servers if s.round_trip_time is not None and s.round_trip_time <= limit]


def least_loaded(
    servers: Servers, operations: Mapping[str, int], random: Callable[[], float]
) -> ServerDescription:
    """Return one of the servers: the less busy of two that are chosen at random.

    Server Selection: Selecting servers within the latency window. `operations` counts what each server is
    doing for this client; `random` returns numbers from 0 to 1.
    """
    # Two rather than all: what this client counts is its own share only, and if all clients took the least
    # busy one by the same knowledge, they would all take the same.
    if len(servers) == 1:
        return servers[0]
    first = int(random() * len(servers))
    second = int(random() * (len(servers) - 1))
    second += second >= first
    one, other = servers[first], servers[second]
    return one if operations.get(one.address, 0) <= operations.get(other.address, 0) else other
