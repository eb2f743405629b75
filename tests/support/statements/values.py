"""Values of every BSON type, the usual ones and those at the edges."""

from __future__ import annotations

import datetime as dt
import struct
from typing import TYPE_CHECKING, Any

from bson import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

NAMES = ("a", "b", "c", "d", "_id", "x", "$id")
PATHS = ("a", "b", "a.b", "a.0", "a.0.b", "a.b.c", "c", "d", "n", "t", "_id", "_id.x")
COLLECTIONS = ("c", "d", "e", "view", "events", "capped", "nowhere")
DATABASES = ("db", "db", "db", "other", "admin", "config", "local")
TEXTS = (
    "",
    "a",
    "b",
    "A",
    "é",
    "a.b",
    "$a",
    "$$ROOT",
    "$$nobody",
    "$",
    "1",
    "2020-02-30",
    "2020-01-31T10:00:00Z",
)
PATTERNS = ("a", "^a", "A|b", "[", "(?i)a", "(", "a{2,1}", "\\", ".*")
SMALL = (0, 1, 2, 3, -1, -2)
NUMBERS: tuple[Any, ...] = (
    *SMALL,
    *(7, 64, 101, 2**31 - 1, -(2**31), Int64(1), Int64(2**63 - 1), Int64(-(2**63))),
    *(0.0, -0.0, 0.5, 1.0, 2.5, -1.5, 1e16, 1e308, 5e-324, float("inf"), float("-inf"), float("nan")),
    *map(Decimal128, ("0", "1", "-1", "2.5", "NaN", "Infinity", "-Infinity", "1E6144", "1E-6176", "-0")),
)
DATES: tuple[Any, ...] = (
    dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2020, 2, 29, 23, 59, 59, 999000, tzinfo=dt.UTC),
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, tzinfo=dt.UTC),
    DatetimeMS(2**62),
    DatetimeMS(-(2**62)),
)
OTHERS: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        MinKey(),
        MaxKey(),
        Timestamp(0, 0),
        Timestamp(5, 1),
        Timestamp(2**32 - 1, 2**32 - 1),
    ),
    *(ObjectId(b"\0" * 12), ObjectId(b"\1" * 12), Binary(b""), Binary(b"\1\2\3", 4), Binary(b"\0" * 16, 4)),
    *(Binary(b"x", 128), Regex("a"), Regex("[", "i"), Regex("a", "xs"), Code("f()"), Code("f()", {"a": 1})),
    {"$ref": "c", "$id": 1},
)
ZONES = ("UTC", "Europe/Paris", "+05:30", "Nowhere/Else", "+99:99", "")
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "eon")
TYPES = (
    "double",
    "string",
    "object",
    "array",
    "bool",
    "date",
    "int",
    "long",
    "decimal",
    "objectId",
    "number",
)
MULTIPLYING = ("$range", "maxTimeMS", "maxAwaitTimeMS")
"""What makes or waits as much as it is told to: what is large on purpose is the matter of other tests."""
DEEP = 150
TOO_DEEP = 260


class Values:
    """Draws values. What is drawn depends on the dice alone."""

    def __init__(self, rng: Random, wrong: float) -> None:
        self.rng = rng
        self.wrong = wrong
        """How often anything stands where something else belongs."""

    def chance(self, probability: float) -> bool:
        """Return whether it happens this time."""
        return self.rng.random() < probability

    def one_of(self, *makers: Callable[[], Any]) -> Any:
        """Return what one of the makers makes."""
        return self.rng.choice(makers)()

    def pick(self, values: Sequence[Any]) -> Any:
        """Return one of the values."""
        return self.rng.choice(values)

    def several(self, make: Callable[[], Any], least: int = 0, most: int = 3) -> list[Any]:
        """Return a few of what is made."""
        return [make() for _ in range(self.rng.randint(least, most))]

    def or_wrong(self, make: Callable[[], Any]) -> Any:
        """Return what belongs somewhere, and now and then anything."""
        return self.anything() if self.chance(self.wrong) else make()

    def number(self) -> Any:
        """Return a number of any type."""
        return self.pick(NUMBERS)

    def small(self) -> Any:
        """Return a small number, as an integer more often than not."""
        small = self.pick(SMALL)
        return small if self.chance(0.7) else self.pick((Int64(small), float(small), Decimal128(str(small))))

    def scalar(self) -> Any:
        """Return a value that is neither a document nor an array."""
        return self.one_of(
            lambda: self.pick(SMALL),
            self.number,
            lambda: self.pick(TEXTS),
            lambda: self.pick(DATES),
            lambda: self.pick(OTHERS),
        )

    def value(self, depth: int = 2) -> Any:
        """Return any value, nested a few levels at most."""
        if depth == 0 or self.chance(0.6):
            return self.scalar()
        if self.chance(0.5):
            return self.several(lambda: self.value(depth - 1))
        return self.document(depth - 1)

    def document(self, depth: int = 2) -> dict[str, Any]:
        """Return a document of a few fields."""
        names = self.rng.sample(NAMES[:-1], self.rng.randint(0, 4))
        return {name: self.value(depth) for name in names}

    def anything(self) -> Any:
        """Return what belongs nowhere: any type, odd names, now and then nested as deep as nobody would."""
        drawn = self.rng.random()
        if drawn < 0.002:
            return nested(self.pick((DEEP, TOO_DEEP)), self.chance(0.5))
        if drawn < 0.1:
            return {self.pick(("$a", "$", "", "a.b", "$where", "$ref", "\u00e9")): self.value(1)}
        return self.value()

    def disturbed(self, value: Any) -> Any:
        """Return a copy of a document or an array in one place of which, however deep, stands anything."""
        places = tuple(value) if isinstance(value, dict) else range(len(value))
        if not places:
            return value
        place = self.pick(places)
        inner = value[place]
        if place in MULTIPLYING:
            return value
        if isinstance(inner, dict | list) and self.chance(0.85):
            other = self.disturbed(inner)
        else:
            other = self.one_of(self.anything, self.number, self.scalar)
        copied = value.copy()
        copied[place] = other
        return copied

    def path(self) -> str:
        """Return the path of a field."""
        return str(self.pick(PATHS))

    def file_name(self) -> str:
        """Return a text that names something."""
        return str(self.pick(TEXTS))

    def timestamp(self) -> Timestamp:
        """Return an instant of the oplog."""
        return Timestamp(*struct.unpack("<II", self.rng.randbytes(8)))


def nested(levels: int, lists: bool) -> Any:  # noqa: FBT001 - one of two shapes
    """Return a value that many levels deep."""
    value: Any = 1
    for _ in range(levels):
        value = [value] if lists else {"a": value}
    return value
