"""The release that a server imitates: its version, and the rules that differ between releases."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

_BAD_VALUE: Final = 2  # by number: who imports a description does without the table of codes
_BSON_OBJECT_TOO_LARGE: Final = 10334


@dataclass(frozen=True)
class Profile:
    """One release. Rules that changed follow from the wire version, which counts releases."""

    name: str
    version: str
    max_wire_version: int

    @staticmethod
    def named(name: str) -> Profile:
        """Return the profile of a release such as `8.2`. Raises `ValueError` for one that is not known."""
        try:
            return PROFILES[name]
        except KeyError:
            raise ValueError(f"unknown profile {name!r}; known are {', '.join(PROFILES)}") from None

    @property
    def version_array(self) -> list[int]:
        """The version as `buildInfo.versionArray` has it, the fourth number 0 for a release."""
        return [*map(int, self.version.split(".")), 0]

    @property
    def feature_compatibility_version(self) -> str:
        return self.name

    @property
    def last_lts(self) -> str:
        """The release of long support before this one, with whose features a deployment may begin and end."""
        return _LAST_LTS[self.name]

    @property
    def last_continuous(self) -> str:
        """The release of short support before this one; none comes before 5.0."""
        return _LAST_CONTINUOUS.get(self.name, self.last_lts)

    @property
    def awaits_topology_changes(self) -> bool:
        """`hello` carries `topologyVersion` and may wait for a change (since 4.4)."""
        return self.max_wire_version >= WIRE_44

    @property
    def labels_retryable_writes(self) -> bool:
        """The server, not the driver, decides on `RetryableWriteError` (since 4.4)."""
        return self.max_wire_version >= WIRE_44

    @property
    def labels_no_writes_performed(self) -> bool:
        """`NoWritesPerformed` exists (since 6.0)."""
        return self.max_wire_version >= WIRE_60

    @property
    def knows_overload(self) -> bool:
        """Overload codes are retriable and labelled (since 8.2)."""
        return self.max_wire_version >= WIRE_82

    @property
    def hints_backoff(self) -> bool:
        """Overload errors may carry `baseBackoffMS` (since 9.0)."""
        return self.max_wire_version >= WIRE_90

    @property
    def probes_for_tickets(self) -> bool:
        """The numbers of tickets are found by throughput probing (since 7.0)."""
        return self.max_wire_version >= WIRE_70

    @property
    def resizes_probed_pools(self) -> bool:
        """A pool's size can be set while it is probed for (since 9.0)."""
        return self.max_wire_version >= WIRE_90

    @property
    def has_priority_port(self) -> bool:
        """A port for operators stands beside the main one (since 9.0)."""
        return self.max_wire_version >= WIRE_90

    @property
    def has_proxy_port(self) -> bool:
        """A mongod has a port for load balancers that speak the PROXY protocol (since 8.1)."""
        return self.max_wire_version >= WIRE_82

    @property
    def drops_missing_indexes(self) -> bool:
        """To drop an index that is not there is no error (since 8.3)."""
        return self.max_wire_version >= WIRE_90

    @property
    def makes_collections_in_transactions(self) -> bool:
        """A transaction may hold what makes a collection or an index (since 4.4)."""
        return self.max_wire_version >= WIRE_44

    @cached_property  # asked for each document that is inserted
    def too_large(self) -> int:
        """The code of a document that is too large to be inserted (another since 8.2)."""
        return _BSON_OBJECT_TOO_LARGE if self.max_wire_version >= WIRE_82 else _BAD_VALUE

    @cached_property  # asked for each document that is inserted
    def stores_dollar_fields(self) -> bool:
        """Names of fields may begin with a dollar sign (since 5.0)."""
        return self.max_wire_version >= WIRE_50

    @property
    def knows_stale_shard_version(self) -> bool:
        """StaleShardVersion is an error that asks for another shard (until 6.0)."""
        return self.max_wire_version <= WIRE_60

    @property
    def takes_legacy_queries(self) -> bool:
        """Any command may come as an OP_QUERY (until 5.0)."""
        return self.max_wire_version <= WIRE_50

    @property
    def write_concern_timeout_name(self) -> str:
        """The name of code 64."""
        return "WriteConcernTimeout" if self.max_wire_version >= WIRE_82 else "WriteConcernFailed"


WIRE_42: Final = 8
WIRE_44: Final = 9
WIRE_50: Final = 13
WIRE_60: Final = 17
WIRE_70: Final = 21
WIRE_80: Final = 25
WIRE_82: Final = 27
WIRE_90: Final = 29

_LAST_LTS: Final = {
    "9.0": "8.0", "8.2": "8.0", "8.0": "7.0", "7.0": "6.0",
    "6.0": "5.0", "5.0": "4.4", "4.4": "4.2", "4.2": "4.0",
}  # fmt: skip
_LAST_CONTINUOUS: Final = {"9.0": "8.3", "8.2": "8.1", "8.0": "7.3", "7.0": "6.3", "6.0": "5.3"}

PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile("9.0", "9.0.0", WIRE_90),
        Profile("8.2", "8.2.3", WIRE_82),
        Profile("8.0", "8.0.17", WIRE_80),
        Profile("7.0", "7.0.28", WIRE_70),
        Profile("6.0", "6.0.27", WIRE_60),
        Profile("5.0", "5.0.32", WIRE_50),
        Profile("4.4", "4.4.30", WIRE_44),
        Profile("4.2", "4.2.25", WIRE_42),
    )
}
"""The profiles by name, newest first; each is the last patch release of its series that we know."""

DEFAULT_PROFILE: Final = "8.2"
"""The release of servers by default."""
