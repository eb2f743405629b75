"""`$group`, and `$bucket` and `$bucketAuto`: documents gathered by a value, or by the range that it is in.

To a server `$bucket` is a `$group` by a `$switch`, followed by a `$sort` on `_id`; some of its errors
therefore speak of `$switch` (40066, 40069), and its buckets come in the order of their boundaries while
those of `$group` promise no order. `$bucketAuto` is a stage of its own: it sorts all documents and cuts the
row.

Null and missing are one group, numbers of equal value are one group whatever their type, and texts that a
collation calls equal are, too: the key is `order` of the value, and the `_id` of a group the value of its
first document. Frames, not documents, are gathered, as accumulators are expressions; each group is
summarized at the end, so that memory grows with the documents and not with the groups. A document made of a
group may be up to 64 MB (10334 beyond).
"""

from __future__ import annotations

import decimal
import math
from bisect import bisect_left, bisect_right
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import Code, Decimal128, MaxKey, MinKey

from fakeserver.errors import CommandError
from fakeserver.profile import WIRE_82
from fakeserver.storage.expressions.accumulators import compile_field
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.functions import Constant, is_constant
from fakeserver.storage.values.arithmetic import integer
from fakeserver.storage.values.decimal_functions import rounded
from fakeserver.storage.values.limits import check_gathered, checked_document
from fakeserver.storage.values.pacing import paced, sorted_at_leisure
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.sorting import sort_documents
from fakeserver.storage.values.types import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    MISSING,
    as_mapping,
    exact,
    is_finite,
    is_nan,
    is_number,
    is_object,
    order,
    type_name,
    whole,
)
from fakeserver.waiting.interrupts import check_for_interrupt, interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.storage.expressions.accumulators import Accumulator
    from fakeserver.storage.port.engine import Evaluate, Frame, Scope
    from fakeserver.storage.stages.flow import PipelineStage

    Document: TypeAlias = dict[str, Any]
    Entry: TypeAlias = tuple[Any, Frame]
    """A value to sort by, and the variables with which its document is seen."""


def compile_group(argument: Any, scope: Scope) -> Callable[[list[Document]], list[Document]]:
    """Return a `$group` stage; groups come in the order of their first document."""
    if not isinstance(argument, dict):
        raise CommandError(15947, "a group's fields must be specified in an object")
    if "_id" not in argument:
        raise CommandError(15955, "a group specification must include an _id")
    key = compile_expression(argument["_id"], scope)
    fields = as_mapping(argument["_id"]) if is_object(argument["_id"]) else {}
    # `{_id: {a: 1}}` looks like a projection, which a key is not: a server refuses it rather than put all
    # documents into one group. Below an operator, as in `{$add: [1, 2]}`, numbers are arguments.
    reads_as_projection = not next(iter(fields), "").startswith("$")
    if reads_as_projection and any(is_number(each) or isinstance(each, bool) for each in fields.values()):
        raise CommandError(17390, "$group does not support inclusion-style expressions")
    return _grouping(
        key,
        {name: compile_field(name, spec, scope) for name, spec in argument.items() if name != "_id"},
        scope,
    )


def _grouping(
    key: Evaluate, fields: Mapping[str, Accumulator], scope: Scope
) -> Callable[[list[Document]], list[Document]]:
    def run(documents: list[Document]) -> list[Document]:
        groups: dict[Any, tuple[Any, list[Frame]]] = {}
        for document in interruptible(documents):
            frame = scope.frame(document)
            value = key(frame)
            # The `_id` of a group without a value is null: a group always has an `_id`.
            value = None if value is MISSING else value
            groups.setdefault(order(value, scope.fold), (value, []))[1].append(frame)
        if not scope.spills:
            check_gathered("$group", (value for value, _frames in groups.values()))
        return [
            checked_document({"_id": value, **summaries(fields, frames)})
            for value, frames in interruptible(groups.values())
        ]

    return run


# A server compiles the first stages of a pipeline for another engine (SBE), which checks the same things
# and has numbers of its own for them. `pipeline_stages` decides which stages are run so.
_PUSHED_DOWN: Final = {16610: 4848403, 40400: 5911200, 5787902: 7548606, 5787908: 7548606}
"""What fails under other codes where the query engine below the pipeline groups."""
_ENDS: Final = frozenset({MinKey, MaxKey})


def pushed_down(run: PipelineStage, *, handed_on: bool) -> PipelineStage:
    """Return a `$group` that the query engine runs, with its codes.

    What it hands on to a stage above it has the least and the greatest value within objects, code as text.
    """

    def grouped(documents: list[Document]) -> list[Document]:
        try:
            groups = run(documents)
        except CommandError as error:
            code = _PUSHED_DOWN.get(error.code)
            if error.code == ErrorCode.BAD_VALUE and error.message == "can't $divide by zero":
                code = 4848401
            if code is None:
                raise
            raise CommandError(code, error.message) from None
        if not handed_on:
            return groups
        return [
            {name: _within_object(value) for name, value in group.items()} for group in interruptible(groups)
        ]

    return grouped


def _within_object(value: Any) -> Any:
    """Return a value as the engine hands it on: extremes wrapped, also in arrays, code as its text."""
    if isinstance(value, list):
        return [_within_object(each) for each in paced(value)] if _ENDS & set(map(type, value)) else value
    if type(value) in _ENDS:
        return {"": value}
    return str(value) if isinstance(value, Code) and value.scope is None else value


def summaries(fields: Mapping[str, Accumulator], frames: Sequence[Frame]) -> Document:
    """Return what accumulators make of the documents of one group.

    An accumulator gets its values in the order of the documents, which `$first`, `$last` and `$push` show.
    The first frame is for what an accumulator reads once a group, such as the `n` of `$firstN`.
    """
    return {
        name: accumulator.summarize([accumulator.source(frame) for frame in paced(frames)], frames[0])
        for name, accumulator in fields.items()
    }


_COUNT: Final[Mapping[str, Any]] = {"count": {"$sum": 1}}
_AUTO_OPTIONS: Final = ("groupBy", "buckets", "output", "granularity")


_OF_THE_COMMAND: Final = frozenset({"NOW", "CLUSTER_TIME"})
"""Variables whose values a command has only when its pipeline is parsed."""


_LATE: Final = frozenset({"NOW", "CLUSTER_TIME"})
"""Variables that have no value yet when a pipeline is parsed, since 8.2."""


class _Buckets:
    """The options of a `$bucket`, which are looked at in the order in which they stand.

    Raises `CommandError` for one that is unknown or malformed.
    """

    def __init__(self, argument: Any, scope: Scope) -> None:
        if not isinstance(argument, dict):
            found = type_name(argument)
            raise CommandError(
                40201, f"Argument to $bucket stage must be an object, but found type: {found}."
            )
        self._scope = scope
        self.group_by: Any = MISSING
        self.boundaries: list[Any] = []
        self.default: Any = MISSING
        self.fields: Mapping[str, Accumulator] = {}
        for name, value in argument.items():
            read = _BUCKET_OPTIONS.get(name)
            if read is None:
                raise CommandError(40197, f"Unrecognized option to $bucket: {name}.")
            # In the order of the command, so that of two mistakes the one that stands first is told, as a
            # server does.
            read(self, value)
        if self.group_by is MISSING or not self.boundaries:
            raise CommandError(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.")
        if "output" not in argument:
            self.read_output(_COUNT)
        if self.default is not MISSING:
            # A default within the boundaries would make two kinds of documents share a bucket.
            lowest, highest = (order(self.boundaries[at], scope.fold) for at in (0, -1))
            if lowest <= order(self.default, scope.fold) < highest:
                raise CommandError(
                    40199,
                    "The $bucket 'default' field must be less than the lowest boundary or greater than or"
                    " equal to the highest boundary.",
                )

    def read_group_by(self, value: Any) -> None:
        """Take what documents are gathered by: a path or an expression."""
        path = type(value) is str and value.startswith("$")
        if not path and not (is_object(value) and next(iter(value), "").startswith("$")):
            raise CommandError(
                40202,
                "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression, but"
                f" found: {show(value)}.",
            )
        self.group_by = value

    def read_boundaries(self, value: Any) -> None:
        """Take the ends of the buckets: constants of one type, in ascending order."""
        if not isinstance(value, list):
            found = f"{type_name(value)}."
            raise CommandError(40200, f"The $bucket 'boundaries' field must be an array, but found: {found}")
        self.boundaries = [self._constant(40191, "boundaries", each) for each in paced(value)]
        if len(self.boundaries) < 2:  # noqa: PLR2004 -- a bucket has two ends
            raise CommandError(40192, "The $bucket 'boundaries' field must have at least 2 values")
        ordered = (order(each, self._scope.fold) for each in paced(self.boundaries))
        for at, (lower, upper) in enumerate(pairwise(ordered)):
            # The first part of an order key is the type's place among types; all numbers share one.
            if lower[0] != upper[0]:
                raise CommandError(40193, "All values in the 'boundaries' option to $bucket need one type")
            if not lower < upper:
                first, second = (show(each) for each in self.boundaries[at : at + 2])
                raise CommandError(
                    40194,
                    f"The 'boundaries' option to $bucket must be sorted, but elements {at} and {at + 1} are"
                    f" not in ascending order ({first} is not less than {second}).",
                )

    def read_default(self, value: Any) -> None:
        """Take the bucket of what is in no other one: a constant."""
        self.default = self._constant(40195, "default", value)

    def read_output(self, value: Any) -> None:
        """Take the accumulators."""
        if not is_object(value):
            found = f"an object, but found type: {type_name(value)}."
            raise CommandError(40196, f"The $bucket 'output' field must be {found}")
        if "_id" in value:
            raise CommandError(15948, "a group's _id may only be specified once")
        self.fields = {name: compile_field(name, spec, self._scope) for name, spec in value.items()}

    def _constant(self, code: int, name: str, value: Any) -> Any:
        """Return a constant's value. Raises `CommandError` with `code` for an expression of a document.

        A constant is one that reads no field. From 8.2 on a server parses before it knows the time, so that
        a boundary cannot be `$$NOW` any more.
        """
        release = self._scope.release
        if not is_constant(value, _LATE if not release or release >= WIRE_82 else ()):
            raise CommandError(code, f"The $bucket '{name}' field must be a constant expression")
        return compile_expression(value, self._scope)(self._scope.frame({}))


_BUCKET_OPTIONS: Final[dict[str, Callable[[_Buckets, Any], None]]] = {
    "groupBy": _Buckets.read_group_by,
    "boundaries": _Buckets.read_boundaries,
    "default": _Buckets.read_default,
    "output": _Buckets.read_output,
}


def compile_bucket(argument: Any, scope: Scope) -> PipelineStage:
    """Return a `$bucket` stage. Raises `CommandError` for a malformed one."""
    options = _Buckets(argument, scope)
    boundaries, default = options.boundaries, options.default
    expression = compile_expression(options.group_by, scope)
    ends = [order(each, scope.fold) for each in boundaries]
    if type(expression) is Constant and default is MISSING and scope.failures is not None:
        # An optimizer that knows the value knows that no document can have a bucket: an error without any
        # document.
        index = bisect_right(ends, order(expression.value, scope.fold))
        if not 0 < index < len(ends):
            message = "One cannot execute a switch statement where all the cases evaluate to false without a"
            scope.failures.append(CommandError(40069, f"{message} default."))

    def bucket_of(frame: Frame) -> Any:
        # A boundary belongs to the bucket above it: each holds its lower end and not its upper one.
        index = bisect_right(ends, order(expression(frame), scope.fold))
        if 0 < index < len(ends):
            return boundaries[index - 1]
        if default is MISSING:
            raise CommandError(
                40066, "$switch could not find a matching branch for an input, and no default was specified."
            )
        return default

    group = _grouping(bucket_of, options.fields, scope)
    return lambda documents: sort_documents(group(documents), {"_id": 1})


def compile_bucket_auto(argument: Any, scope: Scope) -> PipelineStage:
    """Return a `$bucketAuto` stage. Raises `CommandError` for a malformed one.

    Fewer buckets than wanted come out where values are few or equal: those that are equal are never parted.
    Checks are in a server's order; that a needed option is there comes after the form of those that are.
    """
    if not is_object(argument):
        raise CommandError(
            40240, f"The argument to $bucketAuto must be an object, but found type: {type_name(argument)}"
        )
    for key in argument:
        if key not in _AUTO_OPTIONS:
            raise CommandError(40245, f"Unrecognized option to $bucketAuto: {key}")
    if "groupBy" in argument:
        _check_group_by(argument["groupBy"])
    wanted = _buckets(argument["buckets"]) if "buckets" in argument else None
    fields = argument.get("output", _COUNT)
    if not is_object(fields):
        raise CommandError(
            40244, f"The $bucketAuto 'output' field must be an object, but found type: {type_name(fields)}"
        )
    # An empty `output` counts documents, like none.
    accumulators = {name: compile_field(name, spec, scope) for name, spec in (fields or _COUNT).items()}
    rounder = _rounder(argument["granularity"]) if "granularity" in argument else None
    if wanted is None or "groupBy" not in argument:
        raise CommandError(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified")
    if wanted <= 0:
        raise CommandError(
            40243, f"The $bucketAuto 'buckets' field must be greater than 0, but found: {wanted}"
        )
    key = compile_expression(argument["groupBy"], scope)

    def run(documents: list[Document]) -> list[Document]:
        if not scope.spills:
            check_gathered("$bucketAuto", documents)
        found = [_entry(scope.frame(document), key, rounder) for document in interruptible(documents)]
        keys = [order(value, scope.fold) for value, _frame in paced(found)]
        entries = [found[at] for at in sorted_at_leisure(list(range(len(found))), keys.__getitem__)]
        return [
            {"_id": {"min": low, "max": high}, **summaries(accumulators, [frame for _value, frame in held])}
            for low, high, held in _filled(entries, wanted, rounder, scope)
        ]

    return run


def _check_group_by(expression: Any) -> None:
    if type(expression) is str and len(expression) > 1 and expression.startswith("$"):
        return
    if is_object(expression) and next(iter(expression), "").startswith("$"):
        return
    raise CommandError(
        40239,
        "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an expression object, but"
        f" found: {show(expression)}",
    )


def _buckets(value: Any) -> int:
    if not is_number(value):
        raise CommandError(
            40241,
            f"The $bucketAuto 'buckets' field must be a numeric value, but found type: {type_name(value)}",
        )
    number = whole(value)
    if number is None or not INT32_MIN <= number <= INT32_MAX:
        raise CommandError(
            40242,
            "The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found"
            f" {float(exact(value)):g}",
        )
    return number


def _rounder(name: Any) -> Rounder:
    if type(name) is not str:
        raise CommandError(
            40261,
            f"The $bucketAuto 'granularity' field must be a string, but found type: {type_name(name)}",
        )
    return Rounder(name)


def _entry(frame: Frame, key: Evaluate, rounder: Rounder | None) -> Entry:
    """Return a value to sort by with its frame. Raises `CommandError` for what no series can round.

    Preferred numbers are defined for positive ones, and zero stands for itself: texts (40258), NaN (40259)
    and what is negative (40260) have no place between two of them.
    """
    value = key(frame)
    if rounder is None:
        return (None if value is MISSING else value), frame
    if not is_number(value):
        raise CommandError(
            40258,
            "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a value with"
            f" type: {type_name(value)}",
        )
    if is_nan(value):
        raise CommandError(
            40259, "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a NaN"
        )
    if exact(value) < 0:
        raise CommandError(
            40260,
            "$bucketAuto can specify a 'granularity' with non-negative numbers only, but found a negative"
            " number",
        )
    return value, frame


def _filled(
    entries: list[Entry], wanted: int, rounder: Rounder | None, scope: Scope
) -> list[tuple[Any, Any, list[Entry]]]:
    """Return buckets of about the same size, each with its least value, its boundary and what it holds.

    Equal values are never parted. Boundaries are the next bucket's least value, or rounded to a series.
    """
    # Rounded to the nearest size, so that the last bucket is somewhat smaller or larger than the others.
    size = max(int(len(entries) / wanted + 0.5), 1)
    buckets: list[tuple[Any, Any, list[Entry]]] = []
    start, boundary = 0, None
    while start < len(entries) and len(buckets) < wanted:
        check_for_interrupt()
        end = len(entries) if len(buckets) == wanted - 1 else min(start + size, len(entries))
        last = entries[end - 1][0]
        low = entries[start][0]
        if rounder is not None:
            low = rounder.down(low) if boundary is None else boundary
        limit = last if rounder is None else rounder.up(last)
        while end < len(entries) and _belongs(entries[end][0], last, limit, scope):
            check_for_interrupt()
            end += 1
        if rounder is None:
            # The upper end is not part of a bucket, but for the last one, whose end is its greatest value.
            boundary = entries[end][0] if end < len(entries) else entries[-1][0]
        # Zero has no greater number next to it, so a bucket of zeros ends where the next value's number
        # begins.
        elif exact(limit) == 0 and end < len(entries):
            boundary = rounder.down(entries[end][0])
        else:
            boundary = limit
        buckets.append((low, boundary, entries[start:end]))
        start = end
    return buckets


def _belongs(value: Any, last: Any, limit: Any, scope: Scope) -> bool:
    """Return whether a value goes with the last one: it is equal to it, or below the rounded boundary."""
    key = order(value, scope.fold)
    return key == order(last, scope.fold) or key < order(limit, scope.fold)


# The series of preferred numbers to which `$bucketAuto` rounds its boundaries.

_UNKNOWN: Final = 40257
_POWERS: Final = "POWERSOF2"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


_R40: Final = _numbers(
    "100 106 112 118 125 132 140 150 160 170 180 190 200 212 224 236 250 265 280 300 315 355 375 400 425 450"
    " 475 500 530 560 600 630 670 710 750 800 850 900 950"
)
_E48: Final = _numbers(
    "100 105 110 115 121 127 133 140 147 154 162 169 178 187 196 205 215 226 237 249 261 274 287 301 316 332"
    " 348 365 383 402 422 442 464 487 511 536 562 590 619 649 681 715 750 787 825 866 909 953"
)
_E96_BETWEEN: Final = _numbers(
    "102 107 113 118 124 130 137 143 150 158 165 174 182 191 200 210 221 232 243 255 267 280 294 309 324 340"
    " 357 374 392 412 432 453 475 499 523 549 576 604 634 665 698 732 768 806 845 887 931 976"
)
_E192_BETWEEN: Final = _numbers(
    "101 104 106 109 111 114 117 120 123 126 129 132 135 138 142 145 149 152 156 160 164 167 172 176 180 184"
    " 189 193 198 203 208 213 218 223 229 234 240 246 252 258 264 271 277 284 291 298 305 312 320 328 336 344"
    " 352 361 370 379 388 397 407 417 427 437 448 459 470 481 493 505 517 530 542 556 569 583 597 612 626 642"
    " 657 673 690 706 723 741 759 777 796 816 835 856 876 898 920 942 965 988"
)
_E96: Final = tuple(sorted(_E48 + _E96_BETWEEN))
_SERIES: Final = {
    "R5": _numbers("10 16 25 40 63"),
    "R10": _numbers("100 125 160 200 250 315 400 500 630 800"),
    "R20": _numbers("100 112 125 140 160 180 200 224 250 280 315 355 400 450 500 560 630 710 800 900"),
    "R40": _R40,
    "R80": _numbers(
        "103 109 115 122 128 136 145 155 165 175 185 195 206 218 230 243 258 272 290 307 325 345 365 387 412"
        " 437 462 487 515 545 575 615 650 690 730 775 825 875 925 975"
    ),
    "1-2-5": _numbers("10 20 50"),
    "E6": _numbers("10 15 22 33 47 68"),
    "E12": _numbers("10 12 15 18 22 27 33 39 47 56 68 82"),
    "E24": _numbers("10 11 12 13 15 16 18 20 22 24 27 30 33 36 39 43 47 51 56 62 68 75 82 91"),
    "E48": _E48,
    "E96": _E96,
    "E192": tuple(sorted(_E96 + _E192_BETWEEN)),
}
"""Each a decade of a series, in whole numbers. R40 and R80 leave out what a server's leave out."""


class Rounder:
    """Rounds numbers up and down to those of a series, never to themselves. Raises `CommandError` 40257.

    A series is given for one decade and repeats in each other one. Numbers are compared as exact fractions:
    a quotient of doubles may lie beside the number of the series that it should be, and would be rounded to
    that one instead of beyond it.
    """

    def __init__(self, name: str) -> None:
        if name != _POWERS and name not in _SERIES:
            raise CommandError(_UNKNOWN, f"Unknown rounding granularity '{name}'")
        self._series = _SERIES.get(name)

    def up(self, value: Any) -> Any:
        """Return the least number of the series that is greater; zero and infinity stay what they are."""
        if not is_finite(value):
            return value
        number = Fraction(exact(value))
        if number == 0:
            return value
        if self._series is None:
            return _power_of_two(number, value, up=True)
        scale = _decade(number, self._series)
        index = bisect_right(self._series, number / scale)
        found = scale * self._series[index] if index < len(self._series) else scale * 10 * self._series[0]
        return _like(found, value)

    def down(self, value: Any) -> Any:
        """Return the greatest number of the series that is less; zero and infinity stay what they are."""
        if not is_finite(value):
            return value
        number = Fraction(exact(value))
        if number == 0:
            return value
        if self._series is None:
            return _power_of_two(number, value, up=False)
        scale = _decade(number, self._series)
        index = bisect_left(self._series, number / scale) - 1
        found = scale * self._series[index] if index >= 0 else scale / 10 * self._series[-1]
        return _like(found, value)


def _decade(number: Fraction, series: tuple[int, ...]) -> Fraction:
    """Return the power of ten by which the series is multiplied to begin at the number or below it."""
    scale = Fraction(1)
    while number >= scale * 10 * series[0]:
        scale *= 10
    while number < scale * series[0]:
        scale /= 10
    return scale


def _power_of_two(number: Fraction, value: Any, *, up: bool) -> Any:
    power = Fraction(1)
    while power <= number:
        power *= 2
    while power / 2 > number:
        power /= 2
    if not up:
        power /= 2
        if power == number:
            power /= 2
    if isinstance(value, int) and 1 <= power <= INT64_MAX:
        return integer(int(power))
    return _like(power, value)


def _like(number: Fraction, value: Any) -> Any:
    if isinstance(value, Decimal128):
        return rounded(decimal.Context(prec=40).divide(decimal.Decimal(number.numerator), number.denominator))
    try:
        return float(number)
    except OverflowError:  # beyond the largest double
        return math.inf
