"""`$redact`: a document decides by itself, level by level, about the parts of it that are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.stages.flow import Flowing
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import MISSING, is_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.storage.port.scope import Scope

_NO_DECISION: Final = 17053
_DECISIONS: Final = {"DESCEND": "descend", "PRUNE": "prune", "KEEP": "keep"}


def compile_redact(argument: Any, scope: Scope) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return the stage. Raises `CommandError` 17053 where an expression does not decide."""
    inner = scope.binding(_DECISIONS)
    evaluate = compile_expression(argument, inner)

    def decide(level: dict[str, Any], root: dict[str, Any]) -> Any:
        """Return what is left of a document at one level, `MISSING` for nothing."""
        decision = evaluate({**inner.frame(level), "ROOT": root})
        if decision == "keep":
            return level
        if decision == "prune":
            return MISSING
        if decision != "descend":
            raise CommandError(
                _NO_DECISION,
                "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND,"
                f" and $$PRUNE, but returned {show(decision)}",
            )
        return {name: left for name, value in level.items() if (left := below(value, root)) is not MISSING}

    def below(value: Any, root: dict[str, Any]) -> Any:
        if is_object(value):
            return decide(value, root)
        if isinstance(value, list):
            return [left for item in paced(value) if (left := below(item, root)) is not MISSING]
        return value

    return Flowing(
        lambda documents: (
            left for document in documents if (left := decide(document, document)) is not MISSING
        )
    )
