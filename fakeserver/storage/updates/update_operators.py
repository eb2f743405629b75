"""The update operators, each a function from the value at a path to the new one.

An operator answers `MISSING` to remove the field (or to leave it out) and `KEEP` to leave all as it is.

`updating` calls a check (`CHECKS`) once for each field of a statement, when no document is known, and the
operator (`OPERATORS`) for each place that the field's path stands for in a document, with the value there
or `MISSING`. So an argument that is wrong fails though nothing matches, and a value of the wrong type only
where there is one.

`KEEP` matters: a document counts as modified when a byte of it differs, so that an operator which makes an
equal value must not hand it on. Current values belong to the stored document and are never changed; arrays
are built anew. A value from the argument is copied, because one statement is applied to many documents.
Copies, keys and loops of long values are made with yield points (`…_at_leisure`, `paced`), at which other
requests have their turn.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Int64, Timestamp

from fakeserver.errors import WriteError
from fakeserver.storage.filters.match_operators import equality
from fakeserver.storage.filters.matching import compile_pull
from fakeserver.storage.values.arithmetic import combine, integer
from fakeserver.storage.values.pacing import copied_at_leisure, order_at_leisure, paced
from fakeserver.storage.values.printing import show, show_document, show_field
from fakeserver.storage.values.sorting import sort_values
from fakeserver.storage.values.types import (
    MISSING,
    copy_value,
    is_number,
    is_object,
    type_name,
    whole,
)
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Mapping

    from fakeserver.storage.port.engine import Scope


class _Keep:
    """The type of `KEEP`."""


KEEP: Final = _Keep()
"""The answer of an operator that has nothing to do."""


class UpdateContext(NamedTuple):
    """The surroundings of an operator's work: the path, the document (for messages), the scope."""

    path: str
    document: Mapping[str, Any]
    scope: Scope
    now: dt.datetime | None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def shown_id(self) -> str:
        """The document's `_id` as messages show it."""
        return show_field("_id", self.document.get("_id"))


def _set(_current: Any, argument: Any, _context: UpdateContext) -> Any:
    return copied_at_leisure(argument)


def _calculate(name: str, calculate: Callable[[Any, Any], Any]) -> Callable[[Any, Any, UpdateContext], Any]:
    """Return `$inc` or `$mul`, which calculate with the number that is there.

    A missing field counts as 0, of the argument's type: `$inc` then sets the argument and `$mul` a zero.
    Types widen as in a server, int to long to double to decimal; a long that overflows is an error (2) and
    not a double. Null is a value and no number (14).
    """

    def apply(current: Any, argument: Any, context: UpdateContext) -> Any:
        if current is MISSING:
            return argument if name == "$inc" else combine(operator.mul, argument, 0)
        if not is_number(current):
            raise WriteError(
                ErrorCode.TYPE_MISMATCH,
                f"Cannot apply {name} to a value of non-numeric type. {context.shown_id} has the field "
                f"'{context.name}' of non-numeric type {type_name(current)}",
            )
        try:
            result = combine(calculate, current, argument)
        except OverflowError:
            kind = "NumberLong" if type_name(current) == "long" else "NumberInt"
            raise WriteError(
                ErrorCode.BAD_VALUE,
                f"Failed to apply {name} operations to current value (({kind}){current}) for document "
                f"{context.shown_id}",
            ) from None
        # What is equal is the same: a zero keeps its sign, a decimal its digits.
        unchanged = type_name(result) == type_name(current) and equality(current, None)(result)
        return KEEP if unchanged else result

    return apply


def _extreme(better: Callable[[Any, Any], bool]) -> Callable[[Any, Any, UpdateContext], Any]:
    """Return `$min` or `$max`, which compare by the order of BSON types, and so values of any types.

    With a collation texts are compared by it; of equal values, whatever their types, the one that is there
    stays.
    """

    def apply(current: Any, argument: Any, context: UpdateContext) -> Any:
        if current is MISSING:
            return copy_value(argument)
        fold = context.scope.fold
        return (
            copied_at_leisure(argument)
            if better(order_at_leisure(argument, fold), order_at_leisure(current, fold))
            else KEEP
        )

    return apply


def _current_date(_current: Any, argument: Any, context: UpdateContext) -> Any:
    assert context.now is not None, "an update with $currentDate needs the time"
    # A timestamp is in whole seconds since 1970, with a counter within the second, which is always 1 here.
    # Anything else, `true`, `false` and `{$type: "date"}`, is the date.
    if argument == {"$type": "timestamp"}:
        epoch = context.now.replace(tzinfo=None) - context.now.replace(tzinfo=None, year=1970, month=1, day=1,
            hour=0, minute=0, second=0, microsecond=0)  # fmt: skip
        return Timestamp(int(epoch.total_seconds()), 1)
    return context.now


def _array(current: Any, message: str) -> list[Any]:
    """Return an array to work on, a new one. A missing field is an empty array. Raises `WriteError` 2."""
    if current is MISSING:
        return []
    if not isinstance(current, list):
        raise WriteError(ErrorCode.BAD_VALUE, message)
    return list(current)


def _push(current: Any, argument: Any, context: UpdateContext) -> Any:
    """Append to an array.

    Modifiers work in a fixed order, whatever theirs in the statement: elements are put in, then all are
    sorted, then cut. So `$slice` may throw away what has just been pushed. Without `$each`, a document with
    such names is a value.
    """
    items = _array(
        current,
        f"The field '{context.path}' must be an array but is of type {type_name(current)} in document "
        f"{context.shown_id}",
    )
    if not is_object(argument) or "$each" not in argument:
        return [*items, copied_at_leisure(argument)]
    position = argument.get("$position")
    # A negative position counts from the end, and one beyond either end means that end, as of a Python slice.
    at = len(items) if position is None else whole(position) or 0
    items[at:at] = copied_at_leisure(argument["$each"])
    if "$sort" in argument:
        items = sort_values(items, argument["$sort"])
    if "$slice" in argument:
        count = whole(argument["$slice"]) or 0
        # A negative count keeps the last elements, and 0 keeps none.
        items = items[:count] if count >= 0 else items[count:]
    return items


def _add_to_set(current: Any, argument: Any, context: UpdateContext) -> Any:
    """Append what an array does not hold yet, compared as in filters: by value across number types.

    Repetitions that are there stay: only what is added is compared. An array without a new element is kept
    as it is, but a missing field becomes an array, if only an empty one.
    """
    items = _array(
        current,
        f"Cannot apply $addToSet to non-array field. Field named '{context.name}' has non-array type "
        f"{type_name(current)}",
    )
    added = argument["$each"] if _adds_each(argument) else [argument]
    count, fold = len(items), context.scope.fold
    keys = {order_at_leisure(item, fold) for item in paced(items)}
    for value in paced(added):
        key = order_at_leisure(value, fold)
        if key not in keys:
            keys.add(key)
            items.append(copy_value(value))
    return items if len(items) > count or current is MISSING else KEEP


def _pop(current: Any, argument: Any, context: UpdateContext) -> Any:
    """Remove the last element (1) or the first one (-1); an empty array stays as it is.

    A value that is no array is error 14 here, though 2 in `$push` and `$pull`: servers differ by operator.
    """
    if current is MISSING:
        return KEEP
    if not isinstance(current, list):
        raise WriteError(
            ErrorCode.TYPE_MISMATCH,
            f"Path '{context.path}' contains an element of non-array type '{type_name(current)}'",
        )
    return current[:-1] if whole(argument) == 1 else current[1:]


def _pull(current: Any, argument: Any, context: UpdateContext) -> Any:
    """Remove the elements that meet a condition, as `compile_pull` understands it."""
    if current is MISSING:
        return KEEP
    items = _array(current, "Cannot apply $pull to a non-array value")
    test = compile_pull(argument, context.scope)
    kept = [item for item in paced(items) if not test(item)]
    return kept if len(kept) < len(items) else KEEP


def _pull_all(current: Any, argument: Any, context: UpdateContext) -> Any:
    """Remove each element that equals one of a list; unlike in `$pull`, a document there is a value."""
    if current is MISSING:
        return KEEP
    items = _array(current, "Cannot apply $pull to a non-array value")
    fold = context.scope.fold
    pulled = {order_at_leisure(value, fold) for value in paced(argument)}
    kept = [item for item in paced(items) if order_at_leisure(item, fold) not in pulled]
    return kept if len(kept) < len(items) else KEEP


def _bit(current: Any, argument: Any, context: UpdateContext) -> Any:
    """Calculate bit by bit with an integer; a missing field counts as 0.

    The result is a long if one of the operands is. Several operations in one argument apply one after the
    other, in their order.
    """
    value = 0 if current is MISSING else current
    if not isinstance(value, int) or isinstance(value, bool):
        raise WriteError(
            ErrorCode.BAD_VALUE,
            f"Cannot apply $bit to a value of non-integral type. {context.shown_id} has the field "
            f"{context.name} of non-integer type {type_name(value)}",
        )
    long = isinstance(value, Int64)
    for name, operand in argument.items():
        long = long or isinstance(operand, Int64)
        value = _BITWISE[name](int(value), int(operand))
    return integer(value, long=long)


_BITWISE: Final = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}

OPERATORS: Final[dict[str, Callable[[Any, Any, UpdateContext], Any]]] = {
    "$set": _set,
    "$setOnInsert": _set,
    "$unset": lambda current, _argument, _context: KEEP if current is MISSING else MISSING,
    "$inc": _calculate("$inc", operator.add),
    "$mul": _calculate("$mul", operator.mul),
    "$min": _extreme(operator.lt),
    "$max": _extreme(operator.gt),
    "$currentDate": _current_date,
    "$push": _push,
    "$addToSet": _add_to_set,
    "$pop": _pop,
    "$pull": _pull,
    "$pullAll": _pull_all,
    "$bit": _bit,
}


def _check_number(name: str, verb: str) -> Callable[[str, Any], None]:
    """Return the check of `$inc` and `$mul`: a wrong type is error 14, while most arguments give 2 or 9."""

    def check(path: str, argument: Any) -> None:
        if not is_number(argument):
            raise WriteError(
                ErrorCode.TYPE_MISMATCH,
                f"Cannot {verb} with non-numeric argument: {show_field(path, argument)}",
            )

    check.__name__ = f"check_{name}"
    return check


def _check_push(_path: str, argument: Any) -> None:
    """Refuse modifiers that are unknown or malformed. Raises `WriteError` 2.

    There are none without `$each`: what would be modifiers is then a document to append.
    """
    if not is_object(argument) or "$each" not in argument:
        return
    for name in argument:
        if name not in {"$each", "$slice", "$sort", "$position"}:
            raise WriteError(ErrorCode.BAD_VALUE, f"Unrecognized clause in $push: {name}")
    if not isinstance(argument["$each"], list):
        raise WriteError(
            ErrorCode.BAD_VALUE,
            f"The argument to $each in $push must be an array but it was of type: "
            f"{type_name(argument['$each'])}",
        )
    # Both messages are a server's, which differ in their words.
    for name, found in (("$slice", " but was given type:"), ("$position", ", not of type:")):
        if name in argument and whole(argument[name]) is None:
            raise WriteError(
                ErrorCode.BAD_VALUE,
                f"The value for {name} must be an integer value{found} {type_name(argument[name])}",
            )

    if "$sort" in argument:
        _check_push_sort(argument["$sort"])


def _check_push_sort(sort: Any) -> None:
    """Refuse what an array cannot be sorted by: neither a direction nor fields with theirs."""
    if not is_object(sort) and not is_number(sort):
        raise WriteError(
            ErrorCode.BAD_VALUE,
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded "
            "fields",
        )
    fields = sort if is_object(sort) else {"field": sort}
    if not fields:
        raise WriteError(ErrorCode.BAD_VALUE, "The $sort pattern is empty when it should be a set of fields.")
    for path, direction in fields.items():
        if whole(direction) not in (1, -1):
            raise WriteError(ErrorCode.BAD_VALUE, "The $sort element value must be either 1 or -1")
        if not path:
            raise WriteError(ErrorCode.BAD_VALUE, "The $sort field cannot be empty")
        if "" in path.split("."):
            raise WriteError(
                ErrorCode.BAD_VALUE, f"The $sort field is a dotted field but has an empty part: {path}"
            )


def _adds_each(argument: Any) -> bool:
    """Return whether `$addToSet` adds several values: `$each` comes first, else it is a value's field."""
    return isinstance(argument, dict) and next(iter(argument), "") == "$each"


def _check_add_to_set(_path: str, argument: Any) -> None:
    """Refuse `$each` with other fields or without an array. Raises `WriteError` 2 or 14.

    `$addToSet` has no further modifiers: an order or a limit would have no meaning in a set.
    """
    if not _adds_each(argument):
        return
    if len(argument) > 1:
        raise WriteError(
            ErrorCode.BAD_VALUE,
            f"Found unexpected fields after $each in $addToSet: {show_document(argument)}",
        )
    if not isinstance(argument["$each"], list):
        raise WriteError(
            ErrorCode.TYPE_MISMATCH,
            "The argument to $each in $addToSet must be an array but it was of type "
            f"{type_name(argument['$each'])}",
        )


def _check_pop(path: str, argument: Any) -> None:
    if not is_number(argument):
        raise WriteError(
            ErrorCode.FAILED_TO_PARSE, f"Expected a number in: {show_field(path, argument)[1:-1]}"
        )
    if whole(argument) not in (1, -1):
        raise WriteError(ErrorCode.FAILED_TO_PARSE, f"$pop expects 1 or -1, found: {show(argument)}")


def _check_pull_all(_path: str, argument: Any) -> None:
    if not isinstance(argument, list):
        raise WriteError(
            ErrorCode.BAD_VALUE, f"$pullAll requires an array argument but was given a {type_name(argument)}"
        )


def _check_pull(_path: str, argument: Any) -> None:
    """Compile a condition for its mistakes alone, so that a bad one fails though no document matches."""
    compile_pull(argument)


def _check_current_date(_path: str, argument: Any) -> None:
    """Refuse what says neither that the date is wanted nor of which type. Raises `WriteError` 2."""
    if isinstance(argument, bool):
        return
    if not is_object(argument):
        raise WriteError(
            ErrorCode.BAD_VALUE,
            f"{type_name(argument)} is not valid type for $currentDate. Please use a boolean ('true') or a "
            "$type expression ({$type: 'timestamp/date'}).",
        )
    for name in argument:
        if name != "$type":
            raise WriteError(ErrorCode.BAD_VALUE, f"Unrecognized $currentDate option: {name}")
    if argument.get("$type") not in ("date", "timestamp"):
        raise WriteError(
            ErrorCode.BAD_VALUE,
            "The '$type' string field is required to be 'date' or 'timestamp': "
            "{$currentDate: {field : {$type: "
            "'date'}}}",
        )


def _check_bit(path: str, argument: Any) -> None:
    if not is_object(argument) or not argument:
        raise WriteError(
            ErrorCode.BAD_VALUE,
            "The $bit modifier is not compatible with a "
            f"{type_name(argument)}. You must pass in an embedded document: "
            f"{{$bit: {{field: {{and/or/xor: #}}}}",
        )
    for name, operand in argument.items():
        if name not in _BITWISE:
            raise WriteError(
                ErrorCode.BAD_VALUE,
                f"The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is an unknown "
                f"operator: {show_document({path: argument})}",
            )
        if not isinstance(operand, int) or isinstance(operand, bool):
            raise WriteError(
                ErrorCode.BAD_VALUE,
                f"The $bit modifier field must be an Integer(32/64 bit); a '{type_name(operand)}' is not "
                f"supported here: {show_document({path: argument})}",
            )


CHECKS: Final[dict[str, Callable[[str, Any], None]]] = {
    "$inc": _check_number("$inc", "increment"),
    "$mul": _check_number("$mul", "multiply"),
    "$push": _check_push,
    "$addToSet": _check_add_to_set,
    "$pop": _check_pop,
    "$pull": _check_pull,
    "$pullAll": _check_pull_all,
    "$currentDate": _check_current_date,
    "$bit": _check_bit,
}
