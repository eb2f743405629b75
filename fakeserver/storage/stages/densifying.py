"""`$densify`: documents for the numbers or dates that are missing from a sequence.

Three kinds of bounds say where a sequence begins and ends. `full` goes from the least to the greatest value
of all documents, in each partition. `partition` does so with each partition's own values. An array `[low,
high]` includes the lower bound and not the upper one, and makes up documents even where none has the field.
Only explicit bounds leave documents outside of them, which are passed on as they are.

A sequence moves by the step from its own start: a document between two of its values is passed on, and
moves nothing. Documents whose field is null or missing are passed on, too, and belong to no sequence. The
stage sorts its input, by partition and field (for `full` by the field alone, as all partitions begin at the
least value), and the results come in this order, with what is missing after the last document of each at
the end.
"""

from __future__ import annotations

import datetime as dt
import operator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.expressions.functions import nullish
from fakeserver.storage.stages.flow import held
from fakeserver.storage.values import calendar
from fakeserver.storage.values.arithmetic import combine
from fakeserver.storage.values.dates import is_date
from fakeserver.storage.values.paths import field_path, gather, split
from fakeserver.storage.values.sorting import sort_documents
from fakeserver.storage.values.types import (
    INT64_MAX,
    INT64_MIN,
    MISSING,
    copy_value,
    exact,
    is_nan,
    is_number,
    is_object,
    order,
    type_name,
    whole,
)
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.storage.port.engine import Scope
    from fakeserver.storage.stages.flow import PipelineStage

    Document: TypeAlias = dict[str, Any]

_RANGE: Final = Fields.of(
    Field("step", "number", required=True),
    Field("bounds", required=True),
    Field("unit", "string"),
)
_FIELDS: Final = Fields.of(
    Field("field", "string", required=True),
    Field("partitionByFields", "array", of="string"),
    Field("range", "object", required=True, of=_RANGE),
)
_FULL: Final = "full"
_PARTITION: Final = "partition"
# Over all partitions of one run: a step that is too small by mistake would else fill the memory.
_LARGEST: Final = 500_000
"""The most documents that one stage may make up (`internalQueryMaxAllowedDensifyDocs`)."""


class _Range(NamedTuple):
    """The step between values, and its bounds: `full`, `partition` or two values."""

    step: Any
    unit: str | None
    bounds: Any

    @property
    def is_explicit(self) -> bool:
        return isinstance(self.bounds, list)

    def after(self, value: Any) -> Any:
        """Return the value a step further on.

        A date moves by the calendar, in UTC: months and years have no fixed length. Numbers add up as by
        `$add`.
        """
        if self.unit is not None:
            return calendar.add(value, self.unit, int(exact(self.step)), dt.UTC)
        return combine(operator.add, value, self.step)


def compile_densify(argument: Any, scope: Scope) -> PipelineStage:
    """Return a `$densify` stage. Raises `CommandError` for a malformed one."""
    if not is_object(argument):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"The $densify stage specification must be an object, found {type_name(argument)}",
        )
    _FIELDS.check(copy_value(argument), "$densify")
    spread = _range(argument["range"])
    names = argument.get("partitionByFields") or []
    if spread.bounds == _PARTITION and not names:
        raise CommandError(
            5733408,
            "One cannot specify the bounds as 'partition' without specifying a non-empty array of"
            " partitionByFields. You may have meant to specify 'full' bounds.",
        )
    for name in (argument["field"], *names):
        field_path(name)
    # With `full` documents of all partitions come mixed, by the field: `least` is then known from the first
    # of them.
    sort = {**({} if spread.bounds == _FULL else dict.fromkeys(names, 1)), argument["field"]: 1}

    def run(documents: list[Document]) -> list[Document]:
        densifier = _Densifier(spread, split(argument["field"]), [split(name) for name in names], scope)
        return held(densifier.densified(sort_documents(documents, sort, scope.fold)))

    return run


def _range(spec: Mapping[str, Any]) -> _Range:
    step, unit, bounds = spec["step"], spec.get("unit"), spec["bounds"]
    if not is_number(step) or is_nan(step) or exact(step) <= 0:
        raise CommandError(
            5733401, "The step parameter in a range statement must be a strictly positive numeric value"
        )
    if unit is not None:
        number = whole(step)
        # Units are added whole: 1.5 days are no step.
        if number is None or not INT64_MIN <= number <= INT64_MAX:
            raise CommandError(
                6586400,
                "The step parameter in a range statement must be a whole number when densifying a date range",
            )
        if unit not in calendar.UNITS:
            raise CommandError(ErrorCode.FAILED_TO_PARSE, f"unknown time unit value: {unit}")
    if isinstance(bounds, list):
        _check_bounds(bounds, step, unit)
    elif type(bounds) is not str:
        raise CommandError(
            5733404,
            "The bounds in a range statement must be the string 'full', 'partition', or an ascending array of"
            " two numbers or two dates",
        )
    elif bounds not in {_FULL, _PARTITION}:
        raise CommandError(5946802, "Bounds string must either be 'full' or 'partition'")
    return _Range(step, unit, bounds)


def _check_bounds(bounds: list[Any], step: Any, unit: str | None) -> None:
    """Refuse two bounds that no step leads from the one to the other. Raises `CommandError`.

    The unit tells dates from numbers: dates need one, and numbers cannot have one. Both numbers and the
    step must be of one type (5876900). The order is looked at first, by which a date is above any number: a
    wrong mixture may therefore be told as a wrong order.
    """
    if len(bounds) != 2:  # noqa: PLR2004 -- a range has two ends
        raise CommandError(5733403, "A bounding array in a range statement must have exactly two elements")
    low, high = bounds
    if order(low) > order(high):
        raise CommandError(
            5733402, "A bounding array must be an ascending array of either two dates or two numbers"
        )
    mixed = "A bounding array must contain either both dates or both numeric types"
    if is_number(low):
        if unit is not None:
            raise CommandError(5733409, "Numeric bounds may not have unit parameter")
        if not is_number(high):
            raise CommandError(5733406, mixed)
        if len({type_name(each) for each in (low, high, step)}) != 1:
            raise CommandError(5876900, "Upper bound, lower bound, and step must all have the same type")
    elif is_date(low):
        if not is_date(high):
            raise CommandError(5733405, mixed)
        if unit is None:
            raise CommandError(5733410, "A bounding array of dates must specify a unit")
    else:
        raise CommandError(5946800, "Explicit bounds must be numeric or dates")


class _Sequence:
    """One partition: the fields that its documents share, and the next value that may be missing."""

    def __init__(self, shared: Document, following: Any) -> None:
        self.shared = shared
        self.following = following


class _Densifier:
    """One run of a `$densify` stage.

    `least` and `greatest` are the ends of all values so far: input is sorted by the field, or (with
    partitions of their own) neither of them is used.
    """

    def __init__(
        self, spread: _Range, path: tuple[str, ...], partition: Sequence[tuple[str, ...]], scope: Scope
    ) -> None:
        self.spread = spread
        self.path = path
        self.partition = partition
        self.scope = scope
        self.sequences: dict[Any, _Sequence] = {}
        self.least: Any = None
        self.greatest: Any = None
        self.made = 0

    def densified(self, documents: list[Document]) -> Iterator[Document]:
        """Yield sorted documents, and those that are made up between, before and after them."""
        for document in documents:
            value = gather(document, self.path)
            if nullish(value):
                yield document
                continue
            self._check(value)
            # The first value is the least, as the documents are sorted.
            self.least = value if self.least is None else self.least
            self.greatest = value
            shared: Document = {}
            for parts in self.partition:
                found = gather(document, parts)
                if found is not MISSING:
                    _set_below(shared, parts, found)
            key = order(shared, self.scope.fold)
            if key not in self.sequences:
                self.sequences[key] = _Sequence(shared, self._first(value))
            sequence = self.sequences[key]
            # The documents that are missing before this one.
            end = value
            # Beyond the upper bound nothing is missing.
            if self.spread.is_explicit and order(self.spread.bounds[1]) < order(value):
                end = self.spread.bounds[1]
            while order(sequence.following) < order(end):
                # It has the fields of this document, though a collation may call others the same.
                yield self._made(sequence, shared)
            yield document
            # Only a document that stands where the next one would be made takes its place.
            if order(value) == order(sequence.following) and (
                not self.spread.is_explicit or order(value) < order(self.spread.bounds[1])
            ):
                sequence.following = self.spread.after(value)
        yield from self._finished()

    def _check(self, value: Any) -> None:
        """Refuse a value that the step cannot reach. Raises `CommandError` 5733201 or 6053600."""
        dated = is_date(value)
        if not dated and not is_number(value):
            raise CommandError(5733201, "Densify field type must be numeric or a date")
        if dated == (self.spread.unit is not None):
            return
        raise CommandError(
            6053600,
            "Encountered date densify value in collection when step does not have a date unit."
            if dated
            else "Encountered numeric densify value in collection when step has a date unit.",
        )

    def _first(self, value: Any) -> Any:
        """Return the start of a partition: its own least value, that of all, or the bound."""
        if self.spread.is_explicit:
            return self.spread.bounds[0]
        return self.least if self.spread.bounds == _FULL else value

    def _finished(self) -> Iterator[Document]:
        """Yield the documents that are missing after the last one of each partition."""
        spread = self.spread
        if spread.bounds == _PARTITION or (spread.bounds == _FULL and not self.partition):
            return
        if spread.is_explicit and not self.sequences:
            self.sequences[()] = _Sequence({}, spread.bounds[0])
        for sequence in self.sequences.values():
            if spread.is_explicit:
                while order(sequence.following) < order(spread.bounds[1]):
                    yield self._made(sequence)
            else:
                while order(sequence.following) <= order(self.greatest):
                    yield self._made(sequence)

    def _made(self, sequence: _Sequence, shared: Document | None = None) -> Document:
        self.made += 1
        if self.made > _LARGEST:
            raise CommandError(
                5897900,
                f"Generated {self.made} documents in $densify, which is over the limit of {_LARGEST}."
                " Increase the 'internalQueryMaxAllowedDensifyDocs' parameter to allow more generated"
                " documents",
            )
        document: Document = copy_value(sequence.shared if shared is None else shared)
        _set_below(document, self.path, sequence.following)
        sequence.following = self.spread.after(sequence.following)
        return document


def _set_below(document: Document, parts: tuple[str, ...], value: Any) -> None:
    """Set a field of a document that is made up. Raises `CommandError` where it would overwrite another.

    One that is made up has the fields of its partition already: a field within one of these (5733308) or
    within an array (5733307) cannot be set.
    """
    for part in parts[:-1]:
        child = document.setdefault(part, {})
        if isinstance(child, list):
            raise CommandError(5733307, "$densify cannot generate fields nested inside arrays")
        if not isinstance(child, dict):
            raise CommandError(5733308, "$densify cannot overwrite non-object values with objects")
        document = child
    document[parts[-1]] = value
