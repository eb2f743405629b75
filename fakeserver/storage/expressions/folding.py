"""Constants: what the optimizer of a server computes before it sees a document.

An operator whose operands are all constants is one itself; `let` variables of the command and `$$NOW` are
constants too. One that fails refuses the statement, whether a document comes to it or not. Expressions are
optimized where a `Scope` collects these failures: in pipelines, filters and projections, not in the pipelines
of updates, in validators, or where a view is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fakeserver.errors import CommandError
    from fakeserver.storage.port.engine import Evaluate, Frame


class Constant:
    """An expression that has one value for all documents."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, _frame: Frame) -> Any:
        """Return the value."""
        return self.value


def are_constant(operands: Iterable[Evaluate]) -> bool:
    """Return whether all operands are constants."""
    return all(type(each) is Constant for each in operands)


NOT_FOLDED: Final = frozenset({
    "$firstN", "$lastN", "$maxN", "$minN", "$regexFind", "$regexFindAll", "$regexMatch", "$replaceAll",
    "$replaceOne", "$setEquals", "$sortArray", "$zip",
})  # fmt: skip
"""Operators that no optimizer computes, though it does their operands."""
NOT_OPTIMIZED: Final = frozenset({"$function", "$getField", "$setField", "$toHashedIndexKey", "$unsetField"})
"""Operators whose operands no optimizer looks at."""
_ASSOCIATIVE: Final = frozenset({
    "$bitAnd", "$bitOr", "$bitXor", "$concat", "$concatArrays", "$setIntersection", "$setUnion",
})  # fmt: skip
_COMMUTATIVE: Final = _ASSOCIATIVE - {"$concat", "$concatArrays"}
"""Operators whose operands may change places: constants come last, and become one."""
_FROM_THE_LEFT: Final = frozenset({"$add", "$multiply"})


def joined(name: str, operands: list[Evaluate], call: Callable[..., Any]) -> list[Evaluate]:
    """Return operands of which neighbouring constants are one. Raises `CommandError` where these fail."""
    if name in _COMMUTATIVE:
        operands = sorted(operands, key=lambda each: type(each) is Constant)
    if name in _FROM_THE_LEFT:
        leading = next((at for at, each in enumerate(operands) if type(each) is not Constant), len(operands))
        return [*_run(operands[:leading], call), *operands[leading:]]
    if name not in _ASSOCIATIVE:
        return operands
    made: list[Evaluate] = []
    run: list[Evaluate] = []
    for each in operands:
        if type(each) is Constant:
            run.append(each)
        else:
            made += [*_run(run, call), each]
            run = []
    return [*made, *_run(run, call)]


def _run(constants: list[Evaluate], call: Callable[..., Any]) -> list[Evaluate]:
    return [Constant(call(*(each({}) for each in constants)))] if len(constants) > 1 else constants


def optimizing(failures: Sequence[CommandError], what: str) -> CommandError:
    """Return the first failure as the optimizer's of a pipeline or of an expression."""
    error = failures[0].copy()
    error.executing = True
    return error.during(f"Failed to optimize {what}")
