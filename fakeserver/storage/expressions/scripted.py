"""The operators whose work is done by a script: `$where`, `$function`, `$accumulator`.

Arguments are checked here, with a server's codes; scripts are run by `Scope.scripts`, which counts their
time. It is None where no script is allowed, as in a validator.

A script is compiled with the command, so a syntax error is told before the first document. It gets values
and returns one: it cannot change a document. A script that sleeps makes the command wait (docs/STORAGE.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Code

from fakeserver.errors import CommandError
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import MISSING, is_object, type_name
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fakeserver.storage.expressions.compiler import Compiler
    from fakeserver.storage.port.engine import Evaluate, Frame, Scope, Scripts

_IN_VALIDATOR: Final = 4660800
_ACCUMULATOR_FIELDS: Final = frozenset(
    {"init", "initArgs", "accumulate", "accumulateArgs", "merge", "finalize", "lang"}
)


def is_code(value: Any) -> bool:
    """Return whether a value is a script: a string, or code without a scope."""
    return isinstance(value, str) and getattr(value, "scope", None) is None


def compile_where(argument: Any, scope: Scope) -> Callable[[Any], bool]:
    """Return `$where` as a predicate. Raises `CommandError` for what cannot be run here."""
    if isinstance(argument, Code) and argument.scope is not None:
        raise CommandError(ErrorCode.BAD_VALUE, "$where no longer supports deprecated BSON type CodeWScope")
    if not is_code(argument):
        raise CommandError(ErrorCode.BAD_VALUE, "$where got bad type")
    if scope.scripts is None:
        raise CommandError(ErrorCode.BAD_VALUE, "$where is not allowed in this context")
    return scope.scripts.where(str(argument))


def compile_function(compiler: Compiler, argument: Any) -> Evaluate:
    """Return `$function` as an expression. Raises `CommandError`."""
    scripts = _scripts(compiler.scope, "$function")
    if not is_object(argument):
        raise CommandError(
            31260, f"$function requires an object as an argument, found: {type_name(argument)}"
        )
    if "body" not in argument:
        raise CommandError(31261, "The body function must be specified.")
    body = argument["body"]
    # A body that would be computed has a code of its own, also if it computed a string.
    if isinstance(body, dict | list) or (type(body) is str and body.startswith("$")):
        raise CommandError(31432, "The body function must be a constant expression")
    if not is_code(body):
        raise CommandError(31262, "The body function must evaluate to type string or code")
    if "args" not in argument:
        raise CommandError(31263, "The args field must be specified.")
    if "lang" not in argument:
        raise CommandError(31418, "The lang field must be specified.")
    if argument["lang"] != "js":
        raise CommandError(31419, "Currently the only supported language specifier is 'js'.")
    # The order of all these checks is a server's: a client sees the first error alone.
    arguments, call = compiler.compile(argument["args"]), scripts.function(str(body))

    def evaluate(frame: Frame) -> Any:
        values = arguments(frame)
        if not isinstance(values, list):
            raise CommandError(31266, "The args field must be of type array")
        return call({}, values).value

    return evaluate


def _scripts(scope: Scope, name: str) -> Scripts:
    if scope.scripts is None:
        raise CommandError(_IN_VALIDATOR, f"{name} cannot be used inside a validator.")
    return scope.scripts


def compile_accumulator(
    argument: Any, scope: Scope, compile_expression: Callable[[Any, Scope], Evaluate]
) -> tuple[Evaluate, Callable[[Sequence[Any], Frame | None], Any]]:
    """Return `$accumulator` as what it reads of a document, and what it makes of that of a group.

    Raises `CommandError` for a malformed one.
    """
    scripts = _scripts(scope, "$accumulator")
    _check_accumulator(argument)
    init, accumulate = (scripts.function(str(argument[name])) for name in ("init", "accumulate"))
    # Compiled and never called: groups are not divided among shards here, so there is nothing to merge. A
    # syntax error in it is still refused.
    scripts.function(str(argument["merge"]))
    finalize = scripts.function(str(argument["finalize"])) if "finalize" in argument else None
    initial = compile_expression(argument.get("initArgs", []), scope)
    arguments = compile_expression(argument["accumulateArgs"], scope)

    def source(frame: Frame) -> list[Any]:
        values = arguments(frame)
        if not isinstance(values, list):
            raise CommandError(
                4544712, f"$accumulator accumulateArgs must evaluate to an array: {show(values)}"
            )
        # What is missing has no BSON to hand to a script: it becomes null.
        return [None if value is MISSING else value for value in values]

    def summarize(group: Sequence[Any], first: Frame | None) -> Any:
        # A group without documents evaluates `initArgs` with nothing to read.
        start = initial(scope.frame({}) if first is None else first)
        if not isinstance(start, list):
            raise CommandError(4544711, f"$accumulator initArgs must evaluate to an array: {show(start)}")
        state = init({}, start).value
        for values in interruptible(group):
            state = accumulate({}, [state, *values]).value
        return state if finalize is None else finalize({}, [state]).value

    return source, summarize


def _check_accumulator(argument: Any) -> None:
    if not is_object(argument):
        raise CommandError(
            4544703, f"$accumulator expects an object as an argument; found: {type_name(argument)}"
        )
    for name, value in argument.items():
        if name not in _ACCUMULATOR_FIELDS:
            raise CommandError(4544706, f"$accumulator got an unexpected field: {name}")
        if name == "lang":
            if type(value) is not str:
                raise CommandError(4544704, f"$accumulator lang must be a string; found: {type_name(value)}")
            if value != "js":
                raise CommandError(4544705, "$accumulator only supports lang: 'js'")
        elif not name.endswith("Args"):
            if isinstance(value, dict | list) or (type(value) is str and value.startswith("$")):
                raise CommandError(4544701, f"$accumulator '{name}' must be a constant expression")
            if not is_code(value):
                raise CommandError(4544702, f"$accumulator '{name}' must be a String or Code")
    for code, name in (
        (4544707, "init"),
        (4544708, "accumulate"),
        (4544709, "merge"),
        (4544710, "accumulateArgs"),
    ):
        if name not in argument:
            raise CommandError(code, f"$accumulator missing required argument '{name}'")
