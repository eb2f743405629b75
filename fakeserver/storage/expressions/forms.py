"""Expressions that bind variables, choose between expressions, or reach a field by a computed name.

They take their arguments uncompiled: what some of them hold means nothing before a variable is bound.

A form gets the compiler and its argument, and returns an `Evaluate`. It compiles operands with
`compiler.compile`, and a body in which more variables are defined with the compiler that `within` returns.
At run time each turn of a body gets a copy of the frame with the variables in it, so that no turn sees
those of another; the cost is one copy of a small dict for each element.

`$map`, `$filter` and `$reduce` are null where their input is null or missing, and refuse all other input
that is no array. Branches that are not taken are not evaluated, and with an optimizer not even kept. What a
loop collects is weighed, and refused beyond 100 MB (146).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.idl.features import INDEX_VARIABLE
from fakeserver.profile import WIRE_82
from fakeserver.storage.expressions.functions import Constant, NamedArguments, Wording, nullish
from fakeserver.storage.values.limits import Budget, check_value, too_much
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
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.storage.expressions.compiler import Compiler
    from fakeserver.storage.port.engine import Evaluate, Frame

_WORDING: Final = Wording(
    no_object="{name} only supports an object as its argument",
    unknown="Unrecognized parameter to {name}: {key}",
    missing="Missing '{key}' parameter to {name}",
)

_COND: Final = NamedArguments(17080, 17083, {"if": 17080, "then": 17081, "else": 17082}, wording=_WORDING)
_LET: Final = NamedArguments(16874, 16875, {"vars": 16876, "in": 16877}, wording=_WORDING)
_INDEX: Final = "arrayIndexAs"
_MAP: Final = NamedArguments(
    16878, 16879, {"input": 16880, "in": 16882}, {"as": "this", _INDEX: MISSING}, _WORDING
)
_FILTER: Final = NamedArguments(
    28646,
    28647,
    {"input": 28648, "cond": 28650},
    {"as": "this", "limit": None, _INDEX: MISSING},
    _WORDING,
)
_REDUCE: Final = NamedArguments(
    40075, 40076, {"input": 40077, "initialValue": 40078, "in": 40079}, {_INDEX: MISSING}, _WORDING
)
_GET_FIELD: Final = NamedArguments(3041701, 3041701, {"field": 3041702, "input": 3041703}, wording=_WORDING)
_SET_FIELD: Final = NamedArguments(
    4161100, 4161101, {"field": 4161102, "value": 4161103, "input": 4161109}, wording=_WORDING
)
_UNSET_FIELD: Final = NamedArguments(4161100, 4161101, {"field": 4161102, "input": 4161109}, wording=_WORDING)


def check_variable(name: str, *, read: bool = False) -> None:
    """Refuse the name of a variable that no user can bind, or `read`. Raises `CommandError`.

    A user's variable begins with a lower-case letter or a character beyond ASCII; upper case is for
    variables of the system, which may be read and not bound. The code of a refusal is 9.
    """
    if not name:
        raise _no_variable("empty variable names are not allowed")
    if not ("a" <= name[0] <= "z" or name[0] >= "\x80" or (read and "A" <= name[0] <= "Z")):
        what = "a variable name" if read else "a user variable name"
        raise _no_variable(f"'{name}' starts with an invalid character for {what}")
    for character in name:
        if not ((character.isascii() and (character.isalnum() or character == "_")) or character >= "\x80"):
            raise _no_variable(f"'{name}' contains an invalid character for a variable name: '{character}'")


def _no_variable(text: str) -> CommandError:
    return CommandError(ErrorCode.FAILED_TO_PARSE, text)


def _variable(name: Any) -> str:
    """Return the name of a variable that a user binds. Raises `CommandError`."""
    # What is no string fails as an empty name does. `CURRENT` is the one system variable that a user may
    # bind: paths such as `$a` then begin at its new value.
    text = name if type(name) is str else ""
    if text != "CURRENT":
        check_variable(text)
    return text


def null_if_missing(value: Any) -> Any:
    """Return null for a value that is not there."""
    return None if value is MISSING else value


def _cond(compiler: Compiler, argument: Any) -> Evaluate:
    if isinstance(argument, list):
        if len(argument) != 3:  # noqa: PLR2004 -- if, then, else
            message = f"Expression $cond takes exactly 3 arguments. {len(argument)} were passed in."
            raise CommandError(16020, message)
        # Both spellings are read as one from here on, so that a missing or unknown part has one code.
        argument = dict(zip(("if", "then", "else"), argument, strict=True))
    if not is_object(argument):
        raise CommandError(16020, "Expression $cond takes exactly 3 arguments. 1 were passed in.")
    parts = _COND.read("$cond", argument)
    condition, then, otherwise = (compiler.compile(parts[key]) for key in ("if", "then", "else"))
    if compiler.optimizes and type(condition) is Constant:
        # The other branch is compiled, and its malformed parts refused, but it is never evaluated.
        return then if truthy(condition.value) else otherwise
    return lambda frame: then(frame) if truthy(condition(frame)) else otherwise(frame)


def _if_null(compiler: Compiler, argument: Any) -> Evaluate:
    """Return `$ifNull`: the first value that is neither null nor missing, else the last one whatever it is.

    The last is a default and no candidate: it may be null, or missing, and then removes the field.
    """
    passed = len(argument) if isinstance(argument, list) else 1
    if passed < 2:  # noqa: PLR2004 -- a value and a replacement
        raise CommandError(1257300, f"$ifNull needs at least two arguments, had: {passed}")
    items = [compiler.compile(item) for item in paced(argument)]
    if compiler.optimizes:
        items = _possible(items)
        if len(items) == 1:
            return items[0]

    def evaluate(frame: Frame) -> Any:
        for item in paced(items[:-1]):
            value = item(frame)
            if value is not None and value is not MISSING:
                return value
        return items[-1](frame)

    return evaluate


def _possible(items: Sequence[Evaluate]) -> list[Evaluate]:
    """Return the values that may be the first that is not null: no null, and none behind a constant."""
    possible: list[Evaluate] = []
    for item in paced(items[:-1]):
        if type(item) is not Constant:
            possible.append(item)
        elif not nullish(item.value):
            return [*possible, item]
    return [*possible, items[-1]]


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
    read = [_branch(compiler, each) for each in paced(listed)]
    default = compiler.compile(argument["default"]) if "default" in argument else None
    branches, default = _possible_branches(compiler, read, default)
    if not branches and default is not None:
        return default
    if not branches:
        # All cases are constants that are false, and there is no default: a server knows before it sees a
        # document (40069). Where a document is needed to find out, it is 40066.
        message = (
            "One cannot execute a switch statement where all the cases evaluate to false without a default."
        )
        compiler.failures.append(CommandError(40069, message))

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


def _possible_branches(
    compiler: Compiler, branches: list[tuple[_Apart, _Apart]], default: Evaluate | None
) -> tuple[list[tuple[Evaluate, Evaluate]], Evaluate | None]:
    """Return the branches that documents decide on, and the default.

    An optimizer looks at nothing behind a case that is always true, and at no result of one that never is.
    """
    possible: list[tuple[Evaluate, Evaluate]] = []
    for (case, failed), (then, failing) in paced(branches):
        compiler.failures += failed
        if compiler.optimizes and type(case) is Constant:
            if truthy(case.value):
                compiler.failures += failing
                return possible, then
            continue
        compiler.failures += failing
        possible.append((case, then))
    return possible, default


_Apart: TypeAlias = "tuple[Evaluate, list[CommandError]]"


def _branch(compiler: Compiler, branch: Any) -> tuple[_Apart, _Apart]:
    """Return case and result of a branch, each with its failures: which of them count is decided later."""
    if not isinstance(branch, dict):
        raise CommandError(40062, f"$switch expected each branch to be an object, found: {type_name(branch)}")
    for name in branch:
        if name not in ("case", "then"):
            raise CommandError(40063, f"$switch found an unknown argument to a branch: {name}")
    for code, name in ((40064, "case"), (40065, "then")):
        if name not in branch:
            raise CommandError(code, f"$switch requires each branch have a '{name}' expression")
    return compiler.apart(branch["case"]), compiler.apart(branch["then"])


def _let(compiler: Compiler, argument: Any) -> Evaluate:
    """Return `$let`: a body in which variables are defined.

    The values are compiled in the outer scope, so a variable does not see the others of the same `$let`.
    Values that hold an object or an array are weighed when they are bound (146).
    """
    parts = _LET.read("$let", argument)
    if not isinstance(parts["vars"], list) and not is_object(parts["vars"]):
        raise CommandError(10065, "invalid parameter: expected an object (vars)")
    if not is_object(parts["vars"]):
        raise _no_variable(f"invalid parameter: expected an object (vars), found {type_name(parts['vars'])}")
    variables = {_variable(name): compiler.compile(value) for name, value in paced(parts["vars"].items())}
    # Older releases bind constants at run time. The difference shows in which constants fail early.
    smart = compiler.optimizes and (not compiler.scope.release or compiler.scope.release >= WIRE_82)
    constants = {name: value.value for name, value in variables.items() if type(value) is Constant}
    inner = compiler.within(*variables, known=constants if smart else {})
    # A set of its own, to tell what the body reads from what the rest of the expression reads.
    inner.read = set()
    body = inner.compile(parts["in"])
    compiler.read |= inner.read
    if smart:  # since 8.2, what is known or not read is bound no more
        left = inner.read - constants.keys()
        variables = {name: value for name, value in variables.items() if name in left}
    if compiler.optimizes and not variables:
        return body
    made = frozenset(name for name in variables if isinstance(parts["vars"][name], dict | list))

    def evaluate(frame: Frame) -> Any:
        bound = {name: value(frame) for name, value in paced(variables.items())}
        for name in paced(made):  # the next one may hold a variable several times, and then is so large
            check_value("$let", bound[name])
        return body({**frame, **bound})

    return evaluate


def _input_array(code: int, name: str, value: Any) -> list[Any] | None:
    """Return the array to loop over, None where the result is null. Raises `CommandError` with `code`."""
    if value is None or value is MISSING:
        return None
    if not isinstance(value, list):
        raise CommandError(code, f"input to {name} must be an array not {type_name(value)}")
    return value


def _index_of(compiler: Compiler, parts: Mapping[str, Any]) -> str:
    """Return the variable that holds the place of an element, an empty text where a release has none.

    An empty text is a safe name for what nobody can read: `check_variable` refuses it in expressions.
    """
    if _INDEX in parts:
        return _variable(parts[_INDEX])
    return "" if 0 < compiler.scope.release < INDEX_VARIABLE else "IDX"


def _map(compiler: Compiler, argument: Any) -> Evaluate:
    parts = _MAP.read("$map", argument, compiler.scope.release)
    source, name = compiler.compile(parts["input"]), _variable(parts["as"])
    place = _index_of(compiler, parts)
    body = compiler.within(name, place).compile(parts["in"])

    def evaluate(frame: Frame) -> Any:
        items = _input_array(16883, "$map", source(frame))
        if items is None:
            return None
        budget = Budget(too_much("$map"))
        made = []
        for at, item in enumerate(interruptible(items)):
            # An array has no holes: an element for which the body is missing becomes null.
            value = null_if_missing(body({**frame, place: at, name: item}))
            budget.hold(value)
            made.append(value)
        return made

    return evaluate


def _filter(compiler: Compiler, argument: Any) -> Evaluate:
    parts = _FILTER.read("$filter", argument, compiler.scope.release)
    source, limit = compiler.compile(parts["input"]), compiler.compile(parts["limit"])
    name, place = _variable(parts["as"]), _index_of(compiler, parts)
    condition = compiler.within(name, place).compile(parts["cond"])

    def evaluate(frame: Frame) -> Any:
        items = _input_array(28651, "$filter", source(frame))
        if items is None:
            return None
        # Before the elements: a wrong limit is refused even where no element would be kept.
        most = _limit(limit(frame))
        kept = (
            item
            for at, item in enumerate(interruptible(items))
            if truthy(condition({**frame, place: at, name: item}))
        )
        # Lazy, so that conditions behind the last element that is kept are not evaluated.
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
    parts = _REDUCE.read("$reduce", argument, compiler.scope.release)
    source, initial = compiler.compile(parts["input"]), compiler.compile(parts["initialValue"])
    place = _index_of(compiler, parts)
    body = compiler.within("this", "value", place).compile(parts["in"])

    def evaluate(frame: Frame) -> Any:
        items = _input_array(40080, "$reduce", source(frame))
        if items is None:
            return None
        # Not before: the initial value of a null input is not evaluated, and its errors do not show.
        value = initial(frame)
        for at, item in enumerate(interruptible(items)):
            # Each step may double the value (`$concatArrays: ["$$value", "$$value"]`), so each one is
            # weighed.
            value = check_value("$reduce", body({**frame, place: at, "this": item, "value": value}))
        return value

    return evaluate


def _get_field(compiler: Compiler, argument: Any) -> Evaluate:
    """Return `$getField`: a field by its exact name, in which dots and dollar signs are characters.

    An input that is null makes null; one that is missing or no object has no field, so the result is
    missing. The name must be a string: 3041704, for a constant when it is compiled, else for each document.
    """
    # An object that is an expression names the field, as any other value does.
    if not is_object(argument) or next(iter(argument), "").startswith("$"):
        argument = {"field": argument, "input": "$$CURRENT"}
    parts = _GET_FIELD.read("$getField", argument)
    name, source = compiler.compile(parts["field"]), compiler.compile(parts["input"])
    if compiler.is_constant(parts["field"]):
        _field_name(3041704, "$getField", name(compiler.scope.frame({})))

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
    return _setting(compiler, "$setField", _SET_FIELD.read("$setField", argument))


def _setting(compiler: Compiler, operator: str, parts: Mapping[str, Any]) -> Evaluate:
    """Return `$setField` or `$unsetField`, which sets the missing value.

    The input is null or missing: null. It is no object: 4161105. A field that is there keeps its place,
    another one comes last, and one that becomes missing is left out.
    """
    source, value = compiler.compile(parts["input"]), compiler.compile(parts["value"])
    name = _literal_name(compiler, operator, parts["field"])

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


_LITERALS: Final = frozenset({"$literal", "$const"})


def _literal_name(compiler: Compiler, operator: str, field: Any) -> str:
    """Return the name of a field that is to be set, which is no expression. Raises `CommandError`."""
    if type(field) is str and field.startswith("$"):
        message = f"{operator} requires 'field' to be a literal; to name '{field}' write {{$literal: …}}"
        raise CommandError(4161108, message)
    if is_object(field) and len(field) == 1:
        compiler.compile(field)  # what it is comes before what it may not be
    if isinstance(field, list) or (is_object(field) and next(iter(field), "$literal") not in _LITERALS):
        message = f"{operator} requires 'field' to evaluate to a constant, but got a non-constant argument"
        raise CommandError(4161106, message)
    # What is left is a literal, which reads no variable: an empty frame does.
    name = _field_name(4161107, operator, compiler.compile(field)({}))
    if "\0" in name:
        raise CommandError(9534700, f"{operator} requires 'field' to have no null byte")
    return name


def _unset_field(compiler: Compiler, argument: Any) -> Evaluate:
    parts = _UNSET_FIELD.read("$unsetField", argument)
    return _setting(compiler, "$unsetField", {**parts, "value": "$$REMOVE"})


def _sigmoid(compiler: Compiler, argument: Any) -> Evaluate:
    """Return 1 / (1 + e**-x), whose argument may be no array, not even of one expression.

    It is compiled as that formula, so the types of results, null and errors are those of its operators.
    """
    power = {"$exp": {"$multiply": [-1, argument]}}
    return compiler.compile({"$divide": [1, {"$add": [1, power]}]})


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
    "$sigmoid": _sigmoid,
}
"""The operators of this module: each compiles its argument."""
