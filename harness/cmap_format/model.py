"""A case of the format, and what it expects of events and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from driver.cmap.options import PoolOptions
from harness.formats.check import MismatchError
from harness.unified.errors import ScenarioError
from harness.unified.loader import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from driver.events import DriverEvent

VERSION: Final = 1
ANYTHING: Final = (42, "42")
"""What stands for any value that is present."""

_OPTIONS: Final[Mapping[str, tuple[str, float]]] = {
    "maxPoolSize": ("max_size", 1),
    "minPoolSize": ("min_size", 1),
    "maxConnecting": ("max_connecting", 1),
    "maxIdleTimeMS": ("max_idle", 0.001),
    "waitQueueTimeoutMS": ("wait_queue_timeout", 0.001),
}
_OF_THE_TEST: Final = frozenset({"appName", "backgroundThreadIntervalMS"})
_FIELDS: Final[Mapping[str, str]] = {
    "connectionId": "connection_id",
    "interruptInUseConnections": "interrupt_in_use_connections",
}


@dataclass(frozen=True, slots=True)
class CmapCase:
    """One file. `options` are the pool's; those of the test itself stay in `raw_options`."""

    name: str
    style: str
    raw_options: Mapping[str, Any]
    operations: Sequence[Mapping[str, Any]]
    events: Sequence[Mapping[str, Any]]
    ignore: frozenset[str]
    error: Mapping[str, Any] | None = None
    fail_point: Mapping[str, Any] | None = None

    @property
    def options(self) -> PoolOptions:
        """The options of the pool. Raises ScenarioError for one that is unknown."""
        given: dict[str, Any] = {}
        for name, value in self.raw_options.items():
            if name in _OPTIONS:
                field, unit = _OPTIONS[name]
                given[field] = value * unit
            elif name not in _OF_THE_TEST:
                raise ScenarioError(f"{self.name}: the pool option {name} is unknown")
        return PoolOptions(**given)

    @property
    def app_name(self) -> str | None:
        """The name that the fail point of the case waits for."""
        return self.raw_options.get("appName")

    @property
    def in_background(self) -> bool:
        """Whether background runs happen; a positive interval is only the longest that one may take."""
        return bool(self.raw_options.get("backgroundThreadIntervalMS", 1) > 0)

    def judge(self, published: Iterable[DriverEvent], error: BaseException | None) -> None:
        """Compare what happened with what is expected. Raises MismatchError."""
        self._judge_error(error)
        heard = [event for event in published if name_of(event) not in self.ignore]
        for place, expected in enumerate(self.events):
            if place >= len(heard):
                names = ", ".join(map(name_of, heard))
                raise MismatchError(f"expected {expected['type']} as event {place}, got only: {names}")
            _match_event(place, expected, heard[place])

    def _judge_error(self, error: BaseException | None) -> None:
        if self.error is None:
            if error is not None:
                raise MismatchError(f"expected no error, got {error!r}") from error
            return
        if type(error).__name__ != self.error["type"]:
            raise MismatchError(f"expected {self.error['type']}, got {error!r}") from error
        # The specification's text and its tests differ in the case of one letter of these messages.
        if "message" in self.error and str(error).lower() != self.error["message"].lower():
            raise MismatchError(f"expected the message {self.error['message']!r}, got {str(error)!r}")


def load(path: Path) -> CmapCase:
    """Read a file. Raises ScenarioError."""
    document = read(path).value
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ScenarioError(f"{path}: is not version {VERSION} of the format")
    return CmapCase(
        path.stem,
        document["style"],
        document.get("poolOptions", {}),
        document["operations"],
        document.get("events", ()),
        frozenset(document.get("ignore", ())),
        document.get("error"),
        document.get("failPoint"),
    )


def name_of(event: DriverEvent) -> str:
    """Return the name of an event in the format."""
    name = event.kind.removesuffix("Event")
    return f"Connection{name[0].upper()}{name[1:]}" if name.startswith("pool") else name[0].upper() + name[1:]


def _match_event(place: int, expected: Mapping[str, Any], event: DriverEvent) -> None:
    if name_of(event) != expected["type"]:
        raise MismatchError(f"expected {expected['type']} as event {place}, got {event}")
    for field, value in expected.items():
        actual = None if field == "type" else getattr(event, _FIELDS.get(field, field), None)
        if field != "type" and not matches(value, actual):
            raise MismatchError(f"expected {field} {value!r} in event {place}, got {actual!r}: {event}")


def matches(expected: Any, actual: Any) -> bool:
    """Return whether a value matches: documents may hold more, lists may be longer than expected."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            matches(value, actual.get(name)) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, list) and len(actual) >= len(expected) and all(map(matches, expected, actual))
        )
    if expected in ANYTHING and not isinstance(expected, bool):
        return actual is not None
    return bool(expected == actual) and isinstance(expected, bool) == isinstance(actual, bool)
