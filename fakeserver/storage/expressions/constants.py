"""Arguments that must be constants: expressions are allowed if they read nothing of a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.storage.values.types import MISSING, is_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.storage.port.scope import Evaluate, Scope

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
