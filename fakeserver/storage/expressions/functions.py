"""Expression operators that are functions of their evaluated arguments, in tables, and constants of these.

A module of operators has one `FunctionTable`, and decorates a function for each operator; `compiler` merges
the tables. The function gets its operands by place or, where the operator has `NamedArguments`, as one
dict. Operands that lead nowhere are `MISSING`, never left out.

A null or missing operand mostly makes the result null. There are two rules for when, and a server follows
one or the other by operator: `null_in` answers null before any operand is checked; `all_there` checks
operands from the left and answers null at the first null, so that what is wrong before it is an error and
what is wrong behind it is not.

The second half of the module is about constants: `is_constant` tells them by their syntax, where an
argument must be one; `Constant` and `joined` are the optimizer's, on operands that are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.idl.features import OPERANDS
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.types import MISSING, is_object, type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from fakeserver.storage.port.engine import Evaluate, Frame, Scope

    Call: TypeAlias = Callable[..., Any]


_ALIASES: Final = {"$substr": "$substrBytes"}
"""Operators that a server knows by another name."""
# A server has one code for operators of a fixed number of operands and one for a range.
_WRONG_ARITY = 16020
_WRONG_ARITY_RANGE = 28667


VARIES: Final = object()
"""What stands for an argument that is no constant."""


class Wording(NamedTuple):
    """What a server says of wrong named arguments: by operator, argument, and what was found instead."""

    no_object: str = "{name} requires an object as an argument, found: {found}"
    unknown: str = "{name} found an unknown argument: {key}"
    missing: str = "{name} requires '{key}' to be specified"


_WORDING: Final = Wording()


@dataclass(frozen=True, slots=True)
class NamedArguments:
    """The named arguments of an operator, and the codes of a server for those that are wrong.

    `no_object` is the code for arguments without names, `unknown` the one for a name that the operator does
    not know; `required` has the code for each argument that is missing, in the order in which a server looks
    for them, and `optional` what stands for each other one that is left out (`MISSING`: nothing).
    """

    no_object: int
    unknown: int
    required: Mapping[str, int]
    optional: Mapping[str, Any] = field(default_factory=dict)
    wording: Wording = _WORDING

    def read(self, name: str, argument: Any, release: int = 0) -> dict[str, Any]:
        """Return the arguments, with those that are left out. Raises `CommandError` with the codes.

        A `release` knows none that are newer; 0 knows all.
        """
        if not is_object(argument):
            text = self.wording.no_object.format(name=name, found=type_name(argument))
            raise CommandError(self.no_object, text)
        # In a server's order: first each name that is there, then each one that is needed.
        for key in argument:
            known = key in self.required or key in self.optional
            # An argument of a later release is as unknown to this one as a misspelled one.
            if not known or 0 < release < OPERANDS.get(name, {}).get(key, 0):
                raise CommandError(self.unknown, self.wording.unknown.format(name=name, key=key))
        for key, code in self.required.items():
            if key not in argument:
                raise CommandError(code, self.wording.missing.format(name=name, key=key))
        # What has a default gets it here, uncompiled: a default is an expression like any other.
        left_out = {key: value for key, value in self.optional.items() if value is not MISSING}
        return {**left_out, **argument}


@dataclass(frozen=True, slots=True)
class Function:
    """An operator: how many arguments it takes (`most` None: any number), or which named ones.

    `parse` sees named arguments before any document is there, and returns what is to be compiled; it raises
    `CommandError` for wrong ones. `settle` sees arguments that are constants, by name or place, and `VARIES`
    for the others; it raises `CommandError` for wrong ones, and returns whether the operator is null whatever
    the others are. `arity` is an operator's own code for a wrong number of arguments. One that differs
    `by_release` is told the wire version, 0 for none.

    `folds` says that it compares strings, and takes the collation as `fold`. `settle` is called only where
    an optimizer runs, for an operator that was not computed as a whole, of constants alone.
    """

    name: str
    call: Call
    least: int = 1
    most: int | None = 1
    arguments: NamedArguments | None = None
    folds: bool = False
    parse: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    arity: int | None = None
    settle: Callable[[Mapping[Any, Any]], bool] | None = None
    by_release: bool = False

    def check(self, passed: int) -> None:
        """Refuse a wrong number of arguments."""
        if passed >= self.least and (self.most is None or passed <= self.most):
            return
        if self.arity is not None:
            least = f"at least {self.least} arguments" if self.most is None else "a single argument"
            raise CommandError(self.arity, f"{self.name} requires {least}, got {passed}")
        if self.least == self.most:
            # A server parses `$substr` to another operator, whose name is in the message.
            name = _ALIASES.get(self.name, self.name)
            raise CommandError(
                _WRONG_ARITY,
                f"Expression {name} takes exactly {self.least} arguments. {passed} were passed in.",
            )
        raise CommandError(
            _WRONG_ARITY_RANGE,
            f"Expression {self.name} takes at least {self.least} arguments, and at most {self.most}, "
            f"but {passed} were passed in.",
        )


@dataclass(slots=True)
class FunctionTable:
    """Functions by name."""

    functions: dict[str, Function] = field(default_factory=dict)

    def function(
        self,
        name: str,
        least: int = 1,
        most: int | None = -1,
        *,
        arguments: NamedArguments | None = None,
        folds: bool = False,
        parse: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        arity: int | None = None,
        settle: Callable[[Mapping[Any, Any]], bool] | None = None,
        by_release: bool = False,
    ) -> Callable[[Call], Call]:
        """Enter the decorated function as operator `name`; `most` is `least` by default."""

        def enter(call: Call) -> Call:
            # None means any number of operands, so the default needs a sign of its own.
            limit = least if most == -1 else most
            self.functions[name] = Function(
                name, call, least, limit, arguments, folds, parse, arity, settle, by_release
            )
            return call

        return enter

    def get(self, name: str) -> Function | None:
        """Return the operator called `name`, or None."""
        return self.functions.get(name)

    @staticmethod
    def merge(*tables: FunctionTable) -> FunctionTable:
        """Return one table of all."""
        return FunctionTable({name: each for table in tables for name, each in table.functions.items()})


def nullish(value: Any) -> bool:
    """Return whether a value is null or missing."""
    return value is None or value is MISSING


def null_in(call: Call) -> Call:
    """Make a function answer null as soon as one of its arguments is null or missing.

    The check is before the function's own, so `{$subtract: [null, "text"]}` is null and no error.
    """

    def guarded(*arguments: Any, **settings: Any) -> Any:
        return None if any(map(nullish, arguments)) else call(*arguments, **settings)

    return guarded


def all_there(values: Collection[Any], check: Callable[[Any], None]) -> bool:
    """Check arguments in their order, up to one that is null or missing; return whether there is none.

    So what is wrong is refused only before the first null, which is the answer otherwise.
    """
    for value in paced(values):
        if nullish(value):
            return False
        check(value)
    return True


_CHANGING: Final = frozenset({"$rand", "$createObjectId", "$function", "$getField"})
"""Operators that differ from one evaluation to the next, or read the document without naming it:
`$getField` takes its field from `CURRENT` unless it is told another input."""
_OF_A_DOCUMENT: Final = frozenset({"ROOT", "CURRENT"})


def constant(argument: Any, scope: Scope, compile_operand: Callable[[Any], Evaluate]) -> Any:
    """Return the value of an expression that is the same for all documents, or `MISSING` if it is not.

    The failures of the constant are raised, not collected: the caller needs the value to go on.
    """
    if not is_constant(argument):
        return MISSING
    return compile_operand(argument)(scope.frame({}))


def is_constant(
    argument: Any, bound: Collection[str] = (), *, changing: Collection[str] | None = None
) -> bool:
    """Return whether an expression names no field of a document, and nothing that changes by itself.

    Variables that are `bound` change from one evaluation to the next, as do the operators `changing` (those
    of random values, the time and scripts).
    """
    changing = _CHANGING if changing is None else changing
    if type(argument) is str:
        if not argument.startswith("$"):
            return True
        # Other variables than these are the command's own (`let`, `$$NOW`): the same for all documents.
        name = argument[2:].partition(".")[0]
        return argument.startswith("$$") and name not in _OF_A_DOCUMENT and name not in bound
    if isinstance(argument, list):
        return all(is_constant(item, bound, changing=changing) for item in argument)
    if not is_object(argument):
        return True
    # What a literal holds is no expression, so a dollar sign in it names no field.
    if next(iter(argument), "") in {"$literal", "$const"}:
        return True
    return not any(name in argument for name in changing) and all(
        is_constant(item, bound, changing=changing) for item in argument.values()
    )


# Constants: what the optimizer of a server computes before it sees a document.
#
# An operator whose operands are all constants is one itself; `let` variables of the command and `$$NOW` are
# constants too. One that fails refuses the statement, whether a document comes to it or not. Expressions are
# optimized where a `Scope` collects these failures: in pipelines, filters and projections; not in pipelines
# of updates, in validators, or where a view is made.


class Constant:
    """An expression that has one value for all documents.

    The type is the mark that the optimizer looks for, so nothing may subclass it or wrap it in a lambda.
    """

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
"""Operators of numbers whose rounding depends on the order: only the constants in front become one."""


def joined(name: str, operands: list[Evaluate], call: Callable[..., Any]) -> list[Evaluate]:
    """Return operands of which neighbouring constants are one. Raises `CommandError` where these fail.

    As a server regroups operands: `{$concat: ["a", "b", "$c"]}` becomes `{$concat: ["ab", "$c"]}`. What
    fails there fails before the first document.
    """
    if name in _COMMUTATIVE:
        # The sort is stable: operands that are no constants stay in their order.
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
    """Return the first failure as the optimizer's of a pipeline or of an expression.

    It is marked as met while a plan ran: a client is told the command in front of the message.
    """
    error = failures[0].copy()
    error.executing = True
    return error.during(f"Failed to optimize {what}")
