"""Expression operators that are functions of their evaluated arguments, in tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.types import MISSING, is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fakeserver.storage.port.scope import Evaluate, Scope

    Call: TypeAlias = Callable[..., Any]


_WRONG_ARITY = 16020
_WRONG_ARITY_RANGE = 28667


@dataclass(frozen=True, slots=True)
class Function:
    """An operator: how many arguments it takes (`most` None: any number), and whether they have names.

    `parse` looks at named arguments before any document is there, and raises `CommandError` for wrong ones;
    where it `refuses` it has a code of its own for what is no object.
    """

    name: str
    call: Call
    least: int = 1
    most: int | None = 1
    named: bool = False
    folds: bool = False
    parse: Callable[[Any], None] | None = None
    refuses: bool = False

    def check(self, passed: int) -> None:
        """Refuse a wrong number of arguments."""
        if passed >= self.least and (self.most is None or passed <= self.most):
            return
        if self.least == self.most:
            raise CommandError(
                _WRONG_ARITY,
                f"Expression {self.name} takes exactly {self.least} arguments. {passed} were passed in.",
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
        named: bool = False,
        folds: bool = False,
        parse: Callable[[Any], None] | None = None,
        refuses: bool = False,
    ) -> Callable[[Call], Call]:
        """Enter the decorated function as operator `name`; `most` is `least` by default."""

        def enter(call: Call) -> Call:
            limit = least if most == -1 else most
            self.functions[name] = Function(name, call, least, limit, named, folds, parse, refuses)
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
    """Make a function answer null as soon as one of its arguments is null or missing."""

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


_CHANGING: Final = frozenset({"$rand", "$createObjectId", "$function"})
_OF_A_DOCUMENT: Final = frozenset({"ROOT", "CURRENT"})


def constant(argument: Any, scope: Scope, compile_operand: Callable[[Any], Evaluate]) -> Any:
    """Return the value of an expression that is the same for all documents, or `MISSING` if it is not."""
    if not is_constant(argument):
        return MISSING
    return compile_operand(argument)(scope.frame({}))


def is_constant(argument: Any) -> bool:
    """Return whether an expression names no field of a document, and nothing that changes by itself."""
    if type(argument) is str:
        return not argument.startswith("$") or (
            argument.startswith("$$") and argument[2:].partition(".")[0] not in _OF_A_DOCUMENT
        )
    if isinstance(argument, list):
        return all(map(is_constant, argument))
    if not is_object(argument):
        return True
    if next(iter(argument), "") in {"$literal", "$const"}:
        return True
    return not argument.keys() & _CHANGING and all(map(is_constant, argument.values()))
