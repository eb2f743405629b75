"""Time series: their options, the order of a measurement's fields, and the writes that a server refuses.

A server keeps measurements in buckets, by their metadata and a span of time. Of that clients see: the span,
which follows from the granularity and only grows; measurements with their time and metadata first; updates
that are about the metadata and nothing else, since that belongs to a whole bucket.

Here a time series is an ordinary collection of measurements, and `Buckets` only gives them an order: by the
bucket that each would be in, then by time. `commands` calls the checks and `arranged` before the engine sees
a measurement; `CollectionState` keeps a `Buckets`, and sorts by it when somebody reads (`put_in_order`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import bson

from fakeserver.errors import CommandError
from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.values.stored import stored
from fakeserver.storage.values.types import identity, milliseconds
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from fakeserver.storage.port.engine import Document, Namespace
    from fakeserver.storage.values.stored import Stored

# In seconds, by granularity: how much time a bucket may span, and to what its beginning is rounded down.
# Their order is that of the granularities, of which a later one may follow an earlier one only.
_SPANS: Final = {"seconds": 3600, "minutes": 86_400, "hours": 2_592_000}
_ROUNDINGS: Final = {"seconds": 60, "minutes": 3600, "hours": 86_400}
_ELSEWHERE: Final = ("capped", "autoIndexId", "idIndex", "size", "max", "validator", "validationLevel",
                     "validationAction", "viewOn", "pipeline")  # fmt: skip
"""The options of other collections, which a time series cannot have."""
FIELDS: Final = ("timeField", "metaField", "granularity", "bucketRoundingSeconds", "bucketMaxSpanSeconds")
"""The options of a time series, in a server's order."""


def _invalid(message: str) -> CommandError:
    return CommandError(ErrorCode.INVALID_OPTIONS, message)


def check_options(ns: Namespace, request: Mapping[str, Any]) -> None:
    """Refuse what a time series cannot be created with. Raises `CommandError` 72, or 40414 without a time."""
    spec: Mapping[str, Any] = request["timeseries"]
    if "timeField" not in spec:
        raise CommandError(
            ErrorCode.IDL_FAILED_TO_PARSE,
            "BSON field 'create.timeseries.timeField' is missing but a required field",
        )
    for name in _ELSEWHERE:
        if request.get(name):
            raise _invalid(f"{ns}: 'timeseries' is not allowed with '{name}'")
    for name in ("timeField", "metaField"):
        if "\0" in spec.get(name, ""):
            raise CommandError(ErrorCode.BAD_VALUE, f"'{name}' must not contain null bytes")
        if "." in spec.get(name, ""):
            raise _invalid(f"'{name}' must be a top-level field and not contain a '.'")
    if spec.get("metaField") == "_id":
        raise _invalid("'metaField' cannot be \"_id\"")
    if spec.get("metaField") == spec["timeField"]:
        raise _invalid("'metaField' cannot be the same as 'timeField'")
    _check_buckets(spec)


def _check_buckets(spec: Mapping[str, Any]) -> None:
    granularity, span, rounding = _buckets(spec)
    if granularity is None and span != rounding:
        raise _invalid("Time-series 'bucketRoundingSeconds' must be equal to 'bucketMaxSpanSeconds'")
    if granularity is None:
        return
    if span not in (None, _SPANS[granularity]):
        raise _invalid(
            "Time-series 'bucketMaxSpanSeconds' cannot be set to a value other than the default of"
            f" {_SPANS[granularity]} for the provided granularity"
        )
    if rounding is not None:
        raise _invalid(
            "Time-series 'bucketRoundingSeconds' cannot be set alongside the granularity parameter"
        )


def _buckets(spec: Mapping[str, Any]) -> tuple[str | None, int | None, int | None]:
    return spec.get("granularity"), spec.get("bucketMaxSpanSeconds"), spec.get("bucketRoundingSeconds")


def completed(spec: Mapping[str, Any]) -> Document:
    """Return the options as they are shown: with their defaults, in a server's order."""
    granularity, span, _rounding = _buckets(spec)
    shown = dict(spec)
    if granularity is None and span is None:
        shown["granularity"] = granularity = "seconds"
    if granularity is not None:
        shown["bucketMaxSpanSeconds"] = _SPANS[granularity]
    return {name: shown[name] for name in FIELDS if name in shown}


def modified(current: Mapping[str, Any], change: Mapping[str, Any]) -> Document:
    """Return the options after a collMod. Raises `CommandError` 72 for buckets that would shrink."""
    granularity, span, rounding = _buckets(change)
    if not change:
        return dict(current)
    if granularity is not None:
        if span not in (None, _SPANS[granularity]):
            raise _invalid(
                "Timeseries 'bucketMaxSpanSeconds' is not configurable to a value other than the default for"
                " the provided granularity"
            )
        if rounding is not None:
            raise _invalid(
                "Timeseries 'bucketRoundingSeconds' is not configurable alongside the granularity parameter"
            )
        _check_transition(current.get("granularity"), granularity)
        span, rounding = _SPANS[granularity], _ROUNDINGS[granularity]
    elif span is None or rounding is None:
        raise _invalid(
            "Timeseries 'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' need to be set alongside each"
            " other"
        )
    elif span != rounding:
        raise _invalid("Timeseries 'bucketRoundingSeconds' needs to be equal to 'bucketMaxSpanSeconds'")
    now = current.get("granularity", "seconds")
    if current["bucketMaxSpanSeconds"] > span:
        raise _invalid("Timeseries 'bucketMaxSpanSeconds' needs to be equal or greater to transition")
    if current.get("bucketRoundingSeconds", _ROUNDINGS[now]) > rounding:
        raise _invalid("Timeseries 'bucketRoundingSeconds' needs to be equal or greater to transition")
    fields = {name: current[name] for name in ("timeField", "metaField") if name in current}
    if granularity is not None:
        return completed({**fields, "granularity": granularity})
    return completed({**fields, "bucketMaxSpanSeconds": span, "bucketRoundingSeconds": rounding})


def _check_transition(current: str | None, target: str) -> None:
    order = list(_SPANS)
    if current is not None and order.index(target) < order.index(current):
        raise _invalid(
            "Invalid transition for timeseries.granularity. Can only transition from 'seconds' to 'minutes'"
            " or 'minutes' to 'hours'."
        )


def bucket_key(key: Mapping[str, Any], spec: Mapping[str, Any]) -> Document:
    """Return the key of an index of measurements as that of buckets: metadata, and the ends of a field."""
    meta = spec.get("metaField")
    found: Document = {}
    for name, direction in key.items():
        first, dot, rest = name.partition(".")
        if first == meta:
            found[f"meta{dot}{rest}"] = direction
        else:
            # A bucket knows the least and the greatest value of a field: an index of a field is one of both.
            ends = ("min", "max") if direction == 1 else ("max", "min")
            found |= {f"control.{end}.{name}": direction for end in ends}
    return found


def described_buckets(series: str, uuid: Any, spec: Mapping[str, Any]) -> Document:
    """Return the collection in which a server keeps a time series, as `listCollections` shows it."""
    time = spec["timeField"]
    ends = {
        "bsonType": "object",
        "required": [time],
        "properties": {time: {"bsonType": "date"}},
    }
    control = {
        "bsonType": "object",
        "required": ["version", "min", "max"],
        "properties": {
            "version": {"bsonType": "number"},
            "min": ends,
            "max": ends,
            "closed": {"bsonType": "bool"},
        },
    }
    properties: Document = {
        "_id": {"bsonType": "objectId"},
        "control": control,
        "data": {"bsonType": "object"},
    }
    if "metaField" in spec:
        properties["meta"] = {}
    schema = {"bsonType": "object", "required": ["_id", "control", "data"], "properties": properties}
    validator = {"$jsonSchema": {**schema, "additionalProperties": False}}
    return {
        "name": f"system.buckets.{series}",
        "type": "collection",
        "options": {"validator": validator, "clusteredIndex": True, "timeseries": dict(spec)},
        "info": {"readOnly": False, "uuid": uuid},
    }


@dataclass(slots=True)
class Buckets:
    """The order of measurements: that of the buckets that a server would keep them in, and by time within.

    A bucket holds what has the same metadata and a time within `span` of its beginning, which is the time of
    its first measurement, rounded down. `places` has the bucket's beginning, its number and the time of each
    measurement, by the key that it is kept under. Times are milliseconds.
    """

    time_field: str
    meta_field: str | None
    span: int
    rounding: int
    begun: dict[Hashable, list[tuple[int, int]]] = field(default_factory=dict)
    places: dict[Hashable, tuple[int, int, int]] = field(default_factory=dict)
    made: int = 0
    last: tuple[int, int, int] | None = None
    is_disordered: bool = False
    """Whether a measurement has come that lies before an earlier one."""

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Buckets:
        """Return the buckets of a time series with these options, which are complete."""
        span = spec["bucketMaxSpanSeconds"]
        rounding = spec.get("bucketRoundingSeconds", _ROUNDINGS.get(spec.get("granularity", ""), span))
        return cls(spec["timeField"], spec.get("metaField"), span * 1000, rounding * 1000)

    def fork(self) -> Buckets:
        """Return the same, to change alone."""
        begun = {meta: list(each) for meta, each in self.begun.items()}
        return replace(self, begun=begun, places=dict(self.places))

    def add(self, key: Hashable, measurement: Document) -> None:
        """Put a measurement into its bucket."""
        at = milliseconds(measurement[self.time_field])
        meta = self.meta_field
        owner = "" if meta is None or meta not in measurement else identity(measurement[meta])
        begun = self.begun.setdefault(owner, [])
        # `%` of a negative number rounds down as well, so buckets of times before 1970 begin where they
        # should.
        fitting = (each for each in reversed(begun[-_OPEN:]) if each[0] <= at < each[0] + self.span)
        bucket = next(fitting, None)
        if bucket is None:
            bucket = (at - at % self.rounding, self.made)
            self.made += 1
            begun.append(bucket)
        place = self.places[key] = (*bucket, at)
        if self.last is not None and place < self.last:
            self.is_disordered = True
        else:
            self.last = place


_OPEN: Final = 10
"""The newest buckets of the same metadata in which there may be room."""


def arranged(measurement: Stored, spec: Mapping[str, Any]) -> Stored:
    """Return a measurement as a server keeps it: its time and its metadata before all other fields."""
    names: tuple[str, ...] = (spec["timeField"], spec.get("metaField", ""))
    first = [name for name in names if name in measurement]
    document = {name: measurement[name] for name in first} | dict(measurement)
    # The library moves `_id` to the front of a document, but of no document within another.
    return stored(document, bson.encode({"": document})[6:-1])


def check_update(spec: Mapping[str, Any], statement: Mapping[str, Any]) -> None:
    """Refuse an update of anything but metadata. Raises `CommandError` 72."""
    meta = spec.get("metaField")
    what = "on a time-series collection"
    if not statement.get("multi", False):
        raise _invalid(f"Cannot perform a non-multi update {what}")
    if statement.get("upsert", False):
        raise _invalid(f"Cannot perform an upsert {what}")
    if meta is None:
        raise _invalid(f"Cannot perform an update {what} that does not have a metaField")
    _check_query(statement["q"], meta)
    change = statement["u"]
    if not isinstance(change, dict):
        raise _invalid(f"Cannot perform an update {what} using a pipeline update")
    if not is_operators(change):
        raise _invalid(f"Cannot perform an update {what} using a replacement document")
    for operator, fields in change.items():
        if not isinstance(fields, dict):
            continue  # refused when it is compiled
        targets = [*fields, *(str(each) for each in fields.values() if operator == "$rename")]
        if any(name.partition(".")[0] != meta for name in targets):
            raise _invalid(
                f"Cannot perform an update {what} which updates a field that is not the metaField '{meta}'"
            )


def check_delete(spec: Mapping[str, Any], statement: Mapping[str, Any]) -> None:
    """Refuse a delete that is about more than metadata. Raises `CommandError` 72 or 20."""
    meta = spec.get("metaField")
    if meta is None and statement["q"]:
        raise _invalid(
            "Cannot perform a delete with a non-empty query on a time-series collection that does not have a"
            " metaField "
        )
    if statement["limit"] != 0:
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION, "Cannot perform a non-multi delete on a time-series collection"
        )
    if meta is not None:
        _check_query(statement["q"], meta)


def _check_query(query: Mapping[str, Any], meta: str) -> None:
    """Refuse conditions on other fields than the metadata."""
    for name, condition in query.items():
        if name in {"$expr", "$where"}:
            raise _invalid(
                f"Cannot use {name} when performing an update or delete on a time-series collection"
            )
        if name in {"$and", "$or", "$nor"} and isinstance(condition, list):
            for each in condition:
                if isinstance(each, dict):
                    _check_query(each, meta)
        elif not name.startswith("$") and name.partition(".")[0] != meta:
            raise _invalid(
                "Cannot perform an update or delete on a time-series collection when querying on a field that"
                f" is not the metaField '{meta}'"
            )
