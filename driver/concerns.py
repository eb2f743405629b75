"""Read preference, read and write concern, timeout: what clients, databases and collections inherit."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from driver.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping


class ReadMode(Enum):
    """Server Selection: Read Preference, `mode`."""

    PRIMARY = "primary"
    PRIMARY_PREFERRED = "primaryPreferred"
    SECONDARY = "secondary"
    SECONDARY_PREFERRED = "secondaryPreferred"
    NEAREST = "nearest"


@dataclass(frozen=True, slots=True)
class ReadPreference:
    """Which members may serve a read. `max_staleness_seconds` of None has no limit."""

    mode: ReadMode = ReadMode.PRIMARY
    tag_sets: tuple[Mapping[str, str], ...] = ()
    max_staleness_seconds: float | None = None

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> ReadPreference:
        """Return the preference that a `$readPreference` document describes; `Secondary` is `secondary`."""
        mode, tags = document["mode"], document.get("tags", document.get("tagSets", ()))
        return cls(ReadMode(mode[:1].lower() + mode[1:]), tuple(tags), document.get("maxStalenessSeconds"))

    def to_document(self) -> dict[str, Any]:
        """Return the `$readPreference` document (Server Selection: Passing read preference to servers)."""
        document: dict[str, Any] = {"mode": self.mode.value}
        if self.tag_sets:
            document["tags"] = [dict(tags) for tags in self.tag_sets]
        if self.max_staleness_seconds is not None:
            document["maxStalenessSeconds"] = self.max_staleness_seconds
        return document


PRIMARY = ReadPreference()
PRIMARY_PREFERRED = ReadPreference(ReadMode.PRIMARY_PREFERRED)


@dataclass(frozen=True, slots=True)
class ReadConcern:
    """What a read may see; without a level the server's default applies and nothing is sent."""

    level: str | None = None

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> ReadConcern:
        """Return the concern that a `readConcern` document describes."""
        return cls(document.get("level"))

    @property
    def is_server_default(self) -> bool:
        """Whether nothing is sent, so that the server decides."""
        return self.level is None

    def to_document(self) -> dict[str, Any]:
        """Return the `readConcern` document, empty for the server's default."""
        return {} if self.level is None else {"level": self.level}


@dataclass(frozen=True, slots=True)
class WriteConcern:
    """How safe a write must be before it is acknowledged; `w=0` asks for no reply at all.

    Raises InvalidArgumentError for a negative number, one that is not whole, and for `w=0` with `journal`.
    """

    w: int | str | None = None
    journal: bool | None = None
    wtimeout_ms: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.w, str):
            _check_number("w", self.w)
        _check_number("wtimeoutMS", self.wtimeout_ms)
        if self.w == 0 and self.journal:
            raise InvalidArgumentError("w=0 cannot be used with journal=true")

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> WriteConcern:
        """Return the concern that a `writeConcern` document describes, in the server's or the URI's words."""
        journal = document.get("j", document.get("journal"))
        return cls(document.get("w"), journal, document.get("wtimeout", document.get("wtimeoutMS")))

    @property
    def acknowledged(self) -> bool:
        """Whether the server replies."""
        return self.w != 0

    @property
    def is_server_default(self) -> bool:
        """Whether nothing is sent, so that the server decides."""
        return self == WriteConcern()

    def to_document(self) -> dict[str, Any]:
        """Return the `writeConcern` document, empty for the server's default."""
        named = {"w": self.w, "j": self.journal, "wtimeout": self.wtimeout_ms}
        return {name: value for name, value in named.items() if value is not None}


def _check_number(name: str, number: Any) -> None:
    """Raise InvalidArgumentError unless this is nothing, or a whole number that is not negative."""
    if number is None:
        return
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidArgumentError(f"{name} must be a whole number, not {number!r}")
    if number < 0:
        raise InvalidArgumentError(f"{name} cannot be negative: {number}")


@dataclass(frozen=True, slots=True)
class Concerns:
    """All together, as a client, a database or a collection has them.

    `timeout` is timeoutMS in seconds: None is unset, 0 is no limit.
    """

    read_preference: ReadPreference = field(default_factory=ReadPreference)
    read_concern: ReadConcern = field(default_factory=ReadConcern)
    write_concern: WriteConcern = field(default_factory=WriteConcern)
    timeout: float | None = None

    def overridden(
        self,
        read_preference: ReadPreference | None = None,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        timeout: float | None = None,
    ) -> Concerns:
        """Return what a child has: its own, else what its parent has."""
        return Concerns(
            read_preference or self.read_preference,
            read_concern or self.read_concern,
            write_concern or self.write_concern,
            self.timeout if timeout is None else timeout,
        )
