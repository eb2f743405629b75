"""`$group`: documents gathered by a key, and what its accumulators make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.expression_arrays import merge_objects, unique
from fakeserver.storage.expression_math import average, deviation, extreme, total
from fakeserver.storage.expressions import compile_expression
from fakeserver.storage.sorting import sort_documents
from fakeserver.storage.values import MISSING, is_object, order, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.storage.scope import Evaluate, Scope

    Document: TypeAlias = dict[str, Any]
    Accumulate: TypeAlias = Callable[[list[Any]], Any]


def compile_group(argument: Any, scope: Scope) -> Callable[[list[Document]], list[Document]]:
    """Return a `$group` stage; groups come in the order of their first document."""
    if not isinstance(argument, dict):
        raise CommandError(15947, "a group's fields must be specified in an object")
    if "_id" not in argument:
        raise CommandError(15955, "a group specification must include an _id")
    key = compile_expression(argument["_id"], scope)
    fields = {name: _accumulator(name, spec, scope) for name, spec in argument.items() if name != "_id"}

    def run(documents: list[Document]) -> list[Document]:
        groups: dict[Any, tuple[Any, list[dict[str, Any]]]] = {}
        for document in documents:
            frame = scope.frame(document)
            value = key(frame)
            value = None if value is MISSING else value
            groups.setdefault(order(value, scope.fold), (value, []))[1].append(frame)
        return [_summary(value, frames) for value, frames in groups.values()]

    def _summary(value: Any, frames: list[dict[str, Any]]) -> Document:
        return {"_id": value, **{name: summarize(frames) for name, summarize in fields.items()}}

    return run


def _accumulator(name: str, spec: Any, scope: Scope) -> Callable[[list[dict[str, Any]]], Any]:
    if "." in name:
        raise CommandError(40235, f"The field name '{name}' cannot contain '.'")
    if not is_object(spec):
        raise CommandError(40234, f"The field '{name}' must be an accumulator object")
    if len(spec) != 1:
        raise CommandError(40238, f"The field '{name}' must specify one accumulator")
    operator, argument = next(iter(spec.items()))
    if operator in _WITH_COUNT:
        return _counted(operator, argument, scope)
    if operator in _BY_ORDER:
        return _picked(operator, argument, scope)
    if operator not in _ACCUMULATORS:
        raise CommandError(15952, f"unknown group operator '{operator}'")
    accumulate = _ACCUMULATORS[operator]
    expression: Evaluate = compile_expression(argument, scope)
    return lambda frames: accumulate([expression(frame) for frame in frames])


def _counted(operator: str, argument: Any, scope: Scope) -> Callable[[list[dict[str, Any]]], Any]:
    if not is_object(argument) or "n" not in argument or "input" not in argument:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"specification must be an object; found {operator}: {type_name(argument)}",
        )
    count, source = compile_expression(argument["n"], scope), compile_expression(argument["input"], scope)
    take = _WITH_COUNT[operator]

    def summarize(frames: list[dict[str, Any]]) -> Any:
        values = [_null(source(frame)) for frame in frames]
        return take(values, int(count(frames[0])))

    return summarize


def _picked(operator: str, argument: Any, scope: Scope) -> Callable[[list[dict[str, Any]]], Any]:
    """Return an accumulator of what comes first or last in an order of its own."""
    several = operator.endswith("N")
    needed = {"sortBy", "output", *(("n",) if several else ())}
    if not is_object(argument) or set(argument) != needed:
        raise CommandError(5788003, f"{operator} takes {', '.join(sorted(needed))}, and nothing else")
    output = compile_expression(argument["output"], scope)
    count = compile_expression(argument.get("n", 1), scope)
    sort = argument["sortBy"]

    def summarize(frames: list[dict[str, Any]]) -> Any:
        keyed = [{"document": frame["ROOT"], "value": _null(output(frame))} for frame in frames]
        within = {f"document.{name}": direction for name, direction in sort.items()}
        values = [each["value"] for each in sort_documents(keyed, within, scope.fold)]
        if not several:
            return values[0 if operator == "$top" else -1]
        number = int(count(frames[0]))
        return values[:number] if operator == "$topN" else values[-number:]

    return summarize


_BY_ORDER: Final = frozenset({"$top", "$topN", "$bottom", "$bottomN"})


def _null(value: Any) -> Any:
    return None if value is MISSING else value


def _present(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not MISSING]


def _ordered(values: list[Any]) -> list[Any]:
    return sorted((value for value in values if value is not None), key=order)


_WITH_COUNT: Final[dict[str, Callable[[list[Any], int], Any]]] = {
    "$firstN": lambda values, count: values[:count],
    "$lastN": lambda values, count: values[-count:],
    "$minN": lambda values, count: _ordered(values)[:count],
    "$maxN": lambda values, count: _ordered(values)[::-1][:count],
}
_ACCUMULATORS: Final[dict[str, Accumulate]] = {
    "$sum": total,
    "$avg": average,
    "$min": lambda values: extreme(values, -1),
    "$max": lambda values: extreme(values, 1),
    "$first": lambda values: _null(values[0]),
    "$last": lambda values: _null(values[-1]),
    "$push": _present,
    "$addToSet": lambda values: unique(_present(values)),
    "$count": len,
    "$mergeObjects": lambda values: merge_objects(*_present(values), None),
    "$stdDevPop": lambda values: deviation(values, sample=False),
    "$stdDevSamp": lambda values: deviation(values, sample=True),
}
