"""Expressions that bind variables, choose between expressions, or reach a field by a computed name.

They take their arguments uncompiled: what some of them hold means nothing before a variable is bound.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.functions import is_constant, nullish
from fakeserver.storage.values.memory import Budget, check_value, too_much
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import (
    INT32_MAX,
    INT32_MIN,
    MISSING,
    as_mapping,
    is_object,
    truthy,
    type_name,
    whole,
)
from fakeserver.waiting.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.storage.expressions.compiler import Compiler
    from fakeserver.storage.port.scope import Evaluate, Frame

_CODES: Final[Mapping[str, tuple[int, int, tuple[int, ...]]]] = {
    "$cond": (17080, 17083, (17080, 17081, 17082)),
    "$let": (16874, 16875, (16876, 16877)),
    "$map": (16878, 16879, (16880, 16882)),
    "$filter": (28646, 28647, (28648, 28650)),
    "$reduce": (40075, 40076, (40077, 40078, 40079)),
    "$getField": (3041701, 3041701, (3041702, 3041703)),
    "$setField": (4161100, 4161101, (4161102, 4161109, 4161103)),
    "$unsetField": (4161100, 4161101, (4161102, 4161109)),
}
"""Codes of a server for no object, for an unknown argument, and for each that is missing."""


def _parts(
    name: str, argument: Any, required: tuple[str, ...], optional: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the named arguments of an operator. Raises `CommandError` with the operator's own codes."""
    no_object, unknown, missing = _CODES[name]
    known = optional or {}
    if not is_object(argument):
        raise CommandError(no_object, f"{name} only supports an object as its argument")
    for key in argument:
        if key not in required and key not in known:
            raise CommandError(unknown, f"Unrecognized parameter to {name}: {key}")
    for code, key in zip(missing, required, strict=True):
        if key not in argument:
            raise CommandError(code, f"Missing '{key}' parameter to {name}")
    return {**known, **argument}


def _variable(name: Any) -> str:
    """Return the name of a variable that a user binds. Raises `CommandError`."""
    if type(name) is not str or not name:
        raise CommandError(16866, "empty variable names are not allowed")
    if name == "CURRENT":
        return name
    if not ("a" <= name[0] <= "z" or name[0] >= "\x80"):
        raise CommandError(16867, f"'{name}' starts with an invalid character for a user variable name")
    for character in name:
        if not ((character.isascii() and (character.isalnum() or character == "_")) or character >= "\x80"):
            raise CommandError(
                16868, f"'{name}' contains an invalid character for a variable name: '{character}'"
            )
    return name


def null_if_missing(value: Any) -> Any:
    """Return null for a value that is not there."""
    return None if value is MISSING else value


def _cond(compiler: Compiler, argument: Any) -> Evaluate:
    if isinstance(argument, list):
        if len(argument) != 3:  # noqa: PLR2004 -- if, then, else
            message = f"Expression $cond takes exactly 3 arguments. {len(argument)} were passed in."
            raise CommandError(16020, message)
        argument = dict(zip(("if", "then", "else"), argument, strict=True))
    parts = _parts("$cond", argument, ("if", "then", "else"))
    condition, then, otherwise = (compiler.compile(parts[key]) for key in ("if", "then", "else"))
    return lambda frame: then(frame) if truthy(condition(frame)) else otherwise(frame)


def _if_null(compiler: Compiler, argument: Any) -> Evaluate:
    if not isinstance(argument, list) or len(argument) < 2:  # noqa: PLR2004 -- a value and a replacement
        raise CommandError(1257300, "$ifNull needs at least two arguments, had: 1")
    items = [compiler.compile(item) for item in paced(argument)]

    def evaluate(frame: Frame) -> Any:
        for item in paced(items[:-1]):
            value = item(frame)
            if value is not None and value is not MISSING:
                return value
        return items[-1](frame)

    return evaluate


def _switch(compiler: Compiler, argument: Any) -> Evaluate:
    if not isinstance(argument, dict):
        raise CommandError(40060, f"$switch requires an object as an argument, found: {type_name(argument)}")
    unknown = next((name for name in argument if name not in ("branches", "default")), None)
    if unknown is not None:
        raise CommandError(40067, f"$switch found an unknown argument: {unknown}")
    listed = argument.get("branches", [])
    if not isinstance(listed, list):
        raise CommandError(40061, f"$switch expected an array for 'branches', found: {type_name(listed)}")
    if not listed:
        raise CommandError(40068, "$switch requires at least one branch")
    branches = [_branch(compiler, each) for each in paced(listed)]
    default = compiler.compile(argument["default"]) if "default" in argument else None

    def evaluate(frame: Frame) -> Any:
        for case, then in paced(branches):
            if truthy(case(frame)):
                return then(frame)
        if default is None:
            raise CommandError(
                40066, "$switch could not find a matching branch for an input, and no default was specified."
            )
        return default(frame)

    return evaluate


def _branch(compiler: Compiler, branch: Any) -> tuple[Evaluate, Evaluate]:
    if not isinstance(branch, dict):
        raise CommandError(40062, f"$switch expected each branch to be an object, found: {type_name(branch)}")
    for name in branch:
        if name not in ("case", "then"):
            raise CommandError(40063, f"$switch found an unknown argument to a branch: {name}")
    for code, name in ((40064, "case"), (40065, "then")):
        if name not in branch:
            raise CommandError(code, f"$switch requires each branch have a '{name}' expression")
    return compiler.compile(branch["case"]), compiler.compile(branch["then"])


def _let(compiler: Compiler, argument: Any) -> Evaluate:
    parts = _parts("$let", argument, ("vars", "in"))
    if not is_object(parts["vars"]):
        raise CommandError(10065, "invalid parameter: expected an object (vars)")
    variables = {_variable(name): compiler.compile(value) for name, value in paced(parts["vars"].items())}
    made = frozenset(name for name, value in paced(parts["vars"].items()) if isinstance(value, dict | list))
    body = compiler.within(*variables).compile(parts["in"])

    def evaluate(frame: Frame) -> Any:
        bound = {name: value(frame) for name, value in paced(variables.items())}
        for name in paced(made):  # the next one may hold a variable several times, and then is so large
            check_value("$let", bound[name])
        return body({**frame, **bound})

    return evaluate


def _input_array(code: int, name: str, value: Any) -> list[Any] | None:
    if value is None or value is MISSING:
        return None
    if not isinstance(value, list):
        raise CommandError(code, f"input to {name} must be an array not {type_name(value)}")
    return value


def _map(compiler: Compiler, argument: Any) -> Evaluate:
    parts = _parts("$map", argument, ("input", "in"), {"as": "this"})
    source, name = compiler.compile(parts["input"]), _variable(parts["as"])
    body = compiler.within(name).compile(parts["in"])

    def evaluate(frame: Frame) -> Any:
        items = _input_array(16883, "$map", source(frame))
        if items is None:
            return None
        budget = Budget(too_much("$map"))
        made = []
        for item in interruptible(items):
            value = null_if_missing(body({**frame, name: item}))
            budget.hold(value)
            made.append(value)
        return made

    return evaluate


def _filter(compiler: Compiler, argument: Any) -> Evaluate:
    parts = _parts("$filter", argument, ("input", "cond"), {"as": "this", "limit": None})
    source, limit = compiler.compile(parts["input"]), compiler.compile(parts["limit"])
    name = _variable(parts["as"])
    condition = compiler.within(name).compile(parts["cond"])

    def evaluate(frame: Frame) -> Any:
        items = _input_array(28651, "$filter", source(frame))
        if items is None:
            return None
        most = _limit(limit(frame))
        kept = (item for item in interruptible(items) if truthy(condition({**frame, name: item})))
        return list(islice(kept, most))

    return evaluate


def _limit(value: Any) -> int | None:
    """Return how many elements `$filter` keeps at most. Raises `CommandError`."""
    if value is None or value is MISSING:
        return None
    number = whole(value)
    if number is None or not INT32_MIN <= number <= INT32_MAX:
        message = f"$filter: limit must be represented as a 32-bit integral value: {show(value)}"
        raise CommandError(327391, message)
    if number <= 0:
        raise CommandError(327392, f"$filter: limit must be greater than 0: {number}")
    return number


def _reduce(compiler: Compiler, argument: Any) -> Evaluate:
    parts = _parts("$reduce", argument, ("input", "initialValue", "in"))
    source, initial = compiler.compile(parts["input"]), compiler.compile(parts["initialValue"])
    body = compiler.within("this", "value").compile(parts["in"])

    def evaluate(frame: Frame) -> Any:
        items = _input_array(40080, "$reduce", source(frame))
        if items is None:
            return None
        value = initial(frame)
        for item in interruptible(items):
            value = check_value("$reduce", body({**frame, "this": item, "value": value}))
        return value

    return evaluate


def _get_field(compiler: Compiler, argument: Any) -> Evaluate:
    if not isinstance(argument, dict) or "field" not in argument:
        argument = {"field": argument, "input": "$$CURRENT"}
    parts = _parts("$getField", argument, ("field", "input"))
    name, source = compiler.compile(parts["field"]), compiler.compile(parts["input"])
    if is_constant(parts["field"]):
        _field_name(5654602, "$getField", name(compiler.scope.frame({})))

    def evaluate(frame: Frame) -> Any:
        field, value = _field_name(3041704, "$getField", name(frame)), source(frame)
        if value is None:
            return None
        return as_mapping(value).get(field, MISSING) if is_object(value) else MISSING

    return evaluate


def _field_name(code: int, operator: str, name: Any) -> str:
    if type(name) is not str:
        found = "missing" if name is MISSING else type_name(name)
        raise CommandError(code, f"{operator} requires 'field' to evaluate to type String, but got {found}")
    return name


def _set_field(compiler: Compiler, argument: Any) -> Evaluate:
    return _setting(compiler, "$setField", _parts("$setField", argument, ("field", "input", "value")))


def _setting(compiler: Compiler, operator: str, parts: Mapping[str, Any]) -> Evaluate:
    if not is_constant(parts["field"]):
        message = f"{operator} requires 'field' to evaluate to a constant, but got a non-constant argument"
        raise CommandError(4161106, message)
    found = compiler.compile(parts["field"])(compiler.scope.frame({}))
    name = _field_name(4161107, operator, found)
    source, value = compiler.compile(parts["input"]), compiler.compile(parts["value"])

    def evaluate(frame: Frame) -> Any:
        document = source(frame)
        if nullish(document):
            return None
        if not is_object(document):
            message = f"{operator} requires 'input' to evaluate to type Object"
            raise CommandError(4161105, message)
        changed = {**as_mapping(document), name: value(frame)}
        return {key: item for key, item in paced(changed.items()) if item is not MISSING}

    return evaluate


def _unset_field(compiler: Compiler, argument: Any) -> Evaluate:
    parts = _parts("$unsetField", argument, ("field", "input"))
    return _setting(compiler, "$unsetField", {**parts, "value": "$$REMOVE"})


FORMS: Final[dict[str, Callable[[Compiler, Any], Evaluate]]] = {
    "$cond": _cond,
    "$ifNull": _if_null,
    "$switch": _switch,
    "$let": _let,
    "$map": _map,
    "$filter": _filter,
    "$reduce": _reduce,
    "$getField": _get_field,
    "$setField": _set_field,
    "$unsetField": _unset_field,
}
"""The operators of this module: each compiles its argument."""
