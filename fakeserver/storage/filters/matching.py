"""Filters, compiled to predicates on documents.

A filter is read once, and the predicate that comes of it is called for each document. Compiling validates the
whole filter before the first document is seen, so that a malformed one is refused even when there is nothing
to match, as by a server, which parses before it opens the collection.

The model: a filter is a conjunction of items. An item is a top-level operator (`$and`, `$expr` …, the table
`_TOP_LEVEL`) or a path with a condition. A condition is a value to equal, a regular expression, or a
conjunction of operators, which are of three sorts:

* leaf operators (`match_operators.LEAF_OPERATORS`) test one value;
* compound ones (`_COMPOUND`) contain conditions, or say something about the path itself (`$exists`);
* geographic ones read their neighbours as well (`$maxDistance` beside `$near`), so they see the condition.

Arrays decide most questions of detail. A path leads through arrays on its way (`paths.read` yields each value
that it meets). At its end a test sees the value and, if that is an array, each element (`_each`); tests of
the array as such (`$size`, `$elemMatch`, `$exists`) see the value alone (`_whole`). Negations negate the
whole predicate and not the test: `{a: {$ne: 1}}` means that no element is 1, not that one is different.

Three entry points differ in the meaning of the same condition, because a server's do:

* `compile_filter` is about a document;
* `compile_element` (`$elemMatch`) is about one element, and its operators do not look into an array inside;
* `compile_pull` (`$pull`) is about one element, too, but its operators do look into it.

Conditions keep the order in which they stand, as each is cheap and the first that fails ends the test, but
for `$where`, which runs a script and comes last. Scripts and searches are found where `scope` allows them.
Codes and messages are a server's, down to its spelling; clients and tests compare them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import DBRef, Regex

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.functions import is_constant, optimizing
from fakeserver.storage.expressions.scripted import compile_where
from fakeserver.storage.filters import match_operators
from fakeserver.storage.filters.match_operators import (
    LEAF_OPERATORS,
    equality,
    is_operators,
    membership,
    regex_test,
)
from fakeserver.storage.port.engine import Scope
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.paths import read, split
from fakeserver.storage.values.types import (
    MISSING,
    as_mapping,
    equal,
    exact,
    is_nan,
    is_number,
    is_object,
    truthy,
)
from fakeserver.waiting.first_use import at_first_use
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    Predicate: TypeAlias = Callable[[Any], bool]
    Test: TypeAlias = Callable[[Any], bool]

_geo_operators = at_first_use("fakeserver.storage.filters.geo_operators")
_schema = at_first_use("fakeserver.storage.filters.schema")
_text_search = at_first_use("fakeserver.storage.filters.text_search")

_PLAIN: Final = Scope()
_REGEXES: Final = (Regex, re.Pattern)
_NO_NEAR: Final = 5626500


def compile_filter(query: Mapping[str, Any], scope: Scope = _PLAIN) -> Predicate:
    """Return a filter as a predicate on documents. Raises `CommandError` for one that a server refuses."""
    items: Collection[tuple[str, Any]] = query.items()
    # Only then is there anything to sort; Python's sort leaves all others in their order.
    if "$where" in query:
        # The most expensive condition comes last.
        items = sorted(items, key=lambda item: item[0] == "$where")
    predicates = [_compile_item(name, value, scope) for name, value in paced(items) if name != "$comment"]
    if not predicates:
        return lambda _document: True
    if len(predicates) == 1:
        return predicates[0]
    return lambda document: all(predicate(document) for predicate in paced(predicates))


def compile_element(condition: Any, scope: Scope = _PLAIN) -> Predicate:
    """Return a condition on one element of an array, as `$elemMatch` states it.

    Operators test the element itself and do not look into one that is an array; other conditions are a
    filter on the element's fields, an array being a document whose fields are its indexes.
    """
    # A reference is decoded as an object of its own, and is a filter on its fields here.
    if isinstance(condition, DBRef):
        condition = as_mapping(condition)
    if not isinstance(condition, dict) or (
        is_operators(condition) and next(iter(condition)) not in _TOP_LEVEL
    ):
        return _condition("", condition, scope, parts=())
    _refuse_whole_document_operators(condition)
    inner = compile_filter(condition, scope)

    def test(element: Any) -> bool:
        if isinstance(element, list):
            # `{$elemMatch: {"0": 4}}` is about the first element of an array within the array.
            element = {str(index): item for index, item in enumerate(element)}
        return is_object(element) and inner(as_mapping(element))

    return test


def _refuse_whole_document_operators(condition: Mapping[str, Any]) -> None:
    """Refuse what is about a whole document, also in branches: error 2.

    `compile_filter` below does not know that it compiles for an element, so these are found first.
    """
    for name, argument in condition.items():
        if name == "$where":
            raise CommandError(ErrorCode.BAD_VALUE, "$elemMatch cannot contain $where expression")
        if name in {"$expr", "$sampleRate", "$text"}:
            raise CommandError(ErrorCode.BAD_VALUE, f"{name} can only be applied to the top-level document")
        for branch in argument if name in {"$and", "$or", "$nor"} and isinstance(argument, list) else ():
            if isinstance(branch, dict):
                _refuse_whole_document_operators(branch)


def compile_value(condition: Any, scope: Scope = _PLAIN) -> Predicate:
    """Return a condition on one value alone: a document that has no operators is one to equal."""
    return _condition("", condition, scope, parts=())


def compile_pull(condition: Any, scope: Scope = _PLAIN) -> Predicate:
    """Return a condition on the elements that `$pull` removes.

    Unlike `$elemMatch`, operators look into an element that is an array, a filter is about documents only,
    and any other value is met by its equals alone: null by null.
    """
    if isinstance(condition, dict):
        if next(iter(condition), "") in _PATH_OPERATORS:
            # The element as the value of a field with an empty name, so that tests see its elements if it
            # is an array.
            wrapped = _condition("", condition, scope, parts=("",))
            return lambda element: wrapped({"": element})
        inner = compile_filter(condition, scope)
        return lambda element: is_object(element) and inner(as_mapping(element))
    if isinstance(condition, _REGEXES):
        matches = _each(("",), regex_test(condition))
        return lambda element: matches({"": element})
    # Not `equality`, for which null would also be what is missing.
    return lambda element: equal(element, condition, scope.fold)


def _compile_item(name: str, value: Any, scope: Scope) -> Predicate:
    if not name.startswith("$"):
        return _condition(name, value, scope, parts=split(name))
    compiler = _TOP_LEVEL.get(name)
    if compiler is None:
        # The two mistakes that a server has advice for.
        hint = (
            " If you are trying to negate an entire expression, use $nor."
            if name == "$not"
            else " If you have a field name that starts with a '$' symbol, "
            "consider using $getField or $setField."
        )
        raise CommandError(ErrorCode.BAD_VALUE, f"unknown top level operator: {name}.{hint}")
    return compiler(name, value, scope)


def _condition(name: str, condition: Any, scope: Scope, *, parts: tuple[str, ...]) -> Predicate:
    """Return a condition on what stands at a path; `parts` is () for the value itself.

    `name` is the path as errors show it. Operators of one field are a conjunction, and keep their order.
    """
    if isinstance(condition, _REGEXES):
        return _each(parts, regex_test(condition))
    if not is_operators(condition):
        return _each(parts, equality(condition, scope.fold))
    predicates = []
    for operator, argument in condition.items():
        if operator == "$options" and "$regex" not in condition:
            raise CommandError(ErrorCode.BAD_VALUE, "$options needs a $regex")
        # The operator that an option belongs to reads it from the whole condition.
        if not _is_option(operator, condition):
            predicates.append(_operator(name, operator, argument, condition, scope, parts))
    if len(predicates) == 1:
        return predicates[0]
    return lambda document: all(predicate(document) for predicate in predicates)


def _is_option(operator: str, condition: Mapping[str, Any]) -> bool:
    """Return whether an operator is no test, but an option of another."""
    if operator in {"$options", "$comment", "$uniqueDocs"}:
        return True
    return operator in match_operators.DISTANCES and not match_operators.NEAR.isdisjoint(condition)


def _operator(
    name: str,
    operator: str,
    argument: Any,
    condition: Mapping[str, Any],
    scope: Scope,
    parts: tuple[str, ...],
) -> Predicate:
    if not operator.startswith("$"):
        raise CommandError(ErrorCode.BAD_VALUE, f"unknown operator: {operator}")
    compound = _COMPOUND.get(operator)
    if compound is not None:
        return compound(name, argument, scope, parts)
    if operator in match_operators.OPERATORS:
        geographic: Predicate = _geo_operators.compile_geo(operator, condition, scope, parts)
        return geographic
    leaf = LEAF_OPERATORS.get(operator)
    if leaf is None:
        raise CommandError(ErrorCode.BAD_VALUE, f"unknown operator: {operator}")
    test = leaf.compile(argument, name, condition, scope.fold)
    return _each(parts, test) if leaf.each else _whole(parts, test)


def _each(parts: tuple[str, ...], test: Test) -> Predicate:
    """Test what stands at a path, and each element of it if it is an array; without a path, a value alone.

    The fast way is for one field of a document that is a plain dict: it calls nothing but the test.
    """
    if not parts:
        return test
    if len(parts) == 1:
        name = parts[0]

        def shallow(document: Any) -> bool:
            if not isinstance(document, dict):
                return any(_test_expanded(value, test) for value in read(document, parts))
            value = document.get(name, MISSING)
            return test(value) if type(value) is not list else _test_expanded(value, test)

        return shallow
    return lambda document: any(_test_expanded(value, test) for value in read(document, parts))


def _test_expanded(value: Any, test: Test) -> bool:
    """Test the elements of an array first, which a query mostly means, and then the value itself."""
    return (isinstance(value, list) and any(test(item) for item in paced(value))) or test(value)


def _whole(parts: tuple[str, ...], test: Test) -> Predicate:
    """Test what stands at a path, an array as the one value that it is."""
    return lambda document: any(test(value) for value in read(document, parts))


def _negated(predicate: Predicate) -> Predicate:
    """Negate a predicate on documents: it holds where no element passes, and where the field is missing."""
    return lambda document: not predicate(document)


def _exists(_name: str, argument: Any, _scope: Scope, parts: tuple[str, ...]) -> Predicate:
    # A path into an array of documents exists if one of them has the field.
    there = _whole(parts, lambda value: value is not MISSING)
    return there if truthy(argument) else _negated(there)


def _ne(_name: str, argument: Any, scope: Scope, parts: tuple[str, ...]) -> Predicate:
    if isinstance(argument, _REGEXES):
        raise CommandError(ErrorCode.BAD_VALUE, "Can't have regex as arg to $ne.")
    return _negated(_each(parts, equality(argument, scope.fold)))


def _nin(_name: str, argument: Any, scope: Scope, parts: tuple[str, ...]) -> Predicate:
    return _negated(_each(parts, membership("$nin", argument, scope.fold)))


def _not(name: str, argument: Any, scope: Scope, parts: tuple[str, ...]) -> Predicate:
    if isinstance(argument, _REGEXES):
        return _negated(_each(parts, regex_test(argument)))
    if not isinstance(argument, dict):
        raise CommandError(ErrorCode.BAD_VALUE, "$not needs a regex or a document")
    if not argument:
        raise CommandError(ErrorCode.BAD_VALUE, "$not cannot be empty")
    for operator in argument:
        if not operator.startswith("$"):
            raise CommandError(ErrorCode.BAD_VALUE, f"unknown operator: {operator}")
    return _negated(_condition(name, argument, scope, parts=parts))


def _elem_match(_name: str, argument: Any, scope: Scope, parts: tuple[str, ...]) -> Predicate:
    if not is_object(argument):
        raise CommandError(ErrorCode.BAD_VALUE, "$elemMatch needs an Object")
    test = compile_element(argument, scope)
    return _whole(parts, lambda value: isinstance(value, list) and any(test(item) for item in paced(value)))


def _all(name: str, argument: Any, scope: Scope, parts: tuple[str, ...]) -> Predicate:
    """Return `$all`: for each item there is an element that meets it, not the same one for all.

    An item may be an array, which equals an element or the whole value. An empty list matches nothing.
    """
    if not isinstance(argument, list):
        raise CommandError(ErrorCode.BAD_VALUE, "$all needs an array")
    if not argument:
        return lambda _document: False
    operators = [next(iter(item), "") if isinstance(item, dict) else "" for item in argument]
    # All items are `$elemMatch`, or none is: a server reads them in two ways.
    if operators[0] == "$elemMatch":
        if set(operators) != {"$elemMatch"}:
            raise CommandError(ErrorCode.BAD_VALUE, "$all/$elemMatch has to be consistent")
    elif not _PATH_OPERATORS.isdisjoint(operators):
        raise CommandError(ErrorCode.BAD_VALUE, "no $ expressions in $all")
    if operators[0] != "$elemMatch":
        # A document with another $ name, such as a stage, is one to be equal to.
        argument = [{"$eq": item} if isinstance(item, dict) else item for item in argument]
    predicates = [_condition(name, item, scope, parts=parts) for item in paced(argument)]
    return lambda document: all(predicate(document) for predicate in paced(predicates))


_COMPOUND: Final[dict[str, Callable[[str, Any, Scope, tuple[str, ...]], Predicate]]] = {
    "$exists": _exists,
    "$ne": _ne,
    "$nin": _nin,
    "$not": _not,
    "$elemMatch": _elem_match,
    "$all": _all,
}


def _branches(name: str, argument: Any, scope: Scope) -> list[Predicate]:
    """Compile the branches of `$and`, `$or` or `$nor`; an empty list is refused, as it would mean nothing."""
    if not isinstance(argument, list):
        raise CommandError(ErrorCode.BAD_VALUE, f"{name} must be an array")
    if not argument:
        raise CommandError(ErrorCode.BAD_VALUE, "$and/$or/$nor must be a nonempty array")
    for item in argument:
        if not isinstance(item, dict):
            raise CommandError(ErrorCode.BAD_VALUE, "$or/$and/$nor entries need to be full objects")
    return [compile_filter(item, scope) for item in paced(argument)]


def _and(name: str, argument: Any, scope: Scope) -> Predicate:
    branches = _branches(name, argument, scope)
    return lambda document: all(branch(document) for branch in paced(branches))


def _or(name: str, argument: Any, scope: Scope) -> Predicate:
    branches = _branches(name, argument, scope)
    return lambda document: any(branch(document) for branch in paced(branches))


def _nor(name: str, argument: Any, scope: Scope) -> Predicate:
    branches = _branches(name, argument, scope)
    return lambda document: not any(branch(document) for branch in paced(branches))


def _expr(_name: str, argument: Any, scope: Scope) -> Predicate:
    """Return `$expr`: whether an expression on the document is true.

    Errors while it is evaluated fail the command, as those of `$where` do; nothing else in a filter fails
    then. Where expressions are optimized, the failures of its constants reach the scope as one, in the
    words of a filter's optimizer.
    """
    failures: list[CommandError] | None = None if scope.failures is None else []
    expression = compile_expression(argument, scope._replace(failures=failures))
    if failures and scope.failures is not None:
        scope.failures.append(optimizing(failures, "expression"))
    # Without a collation the rewritten condition says the same, and is not asked.
    if scope.fold is None or not isinstance(argument, dict):
        return lambda document: truthy(expression(scope.frame(document)))
    # A server rewrites these as a condition of a filter, which knows no collation, and asks both.
    listed = [
        compile_expression(each, scope._replace(fold=None, failures=None))
        for each in argument.get("$and", [argument])
        if _is_in_list(each)
    ]

    def matches(document: Any) -> bool:
        frame = scope.frame(document)
        return truthy(expression(frame)) and all(truthy(each(frame)) for each in listed)

    return matches


def _is_in_list(expression: Any) -> bool:
    """Return whether an expression asks whether a field is in a list of constants."""
    if not isinstance(expression, dict) or list(expression) != ["$in"]:
        return False
    operands = expression["$in"]
    if not isinstance(operands, list) or len(operands) != 2:  # noqa: PLR2004 -- a value and an array
        return False
    field, items = operands
    is_field = type(field) is str and field.startswith("$") and not field.startswith("$$")
    return is_field and isinstance(items, list) and all(is_constant(each) for each in items)


def _json_schema(_name: str, argument: Any, _scope: Scope) -> Predicate:
    schema = _schema.compile_schema(argument)
    return lambda document: not schema(document)


def _constant(name: str, argument: Any, _scope: Scope) -> Predicate:
    if argument != 1:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, f"{name} must be an integer value of 1")
    result = name == "$alwaysTrue"
    return lambda _document: result


def _sample_rate(name: str, argument: Any, scope: Scope) -> Predicate:
    if not is_number(argument):
        raise CommandError(ErrorCode.BAD_VALUE, f"argument to {name} must be a numeric type")
    rate = exact(argument)
    if is_nan(argument) or not 0 <= rate <= 1:
        raise CommandError(ErrorCode.BAD_VALUE, f"numeric argument to {name} must be in [0, 1]")
    rng = scope.rng
    # No random number is drawn where none decides.
    if rate in (0, 1) or rng is None:
        return lambda _document: rate == 1
    return lambda _document: rng.random() < rate


def _text(_name: str, argument: Any, scope: Scope) -> Predicate:
    predicate: Predicate = _text_search.compile_text(argument, scope)
    return predicate


def _reference(name: str, argument: Any, scope: Scope) -> Predicate:
    """Return the test of a DBRef's field, whose value is always a literal, operators too."""
    return _each((name,), equality(argument, scope.fold if name == "$id" else None))


# `$not` is not among them: `$pull` reads `{$not: …}` as a filter on fields, and refuses it there.
_PATH_OPERATORS: Final = frozenset({*LEAF_OPERATORS, *_COMPOUND, *match_operators.OPERATORS, "$options"}) - {
    "$not"
}
_TOP_LEVEL: Final[dict[str, Callable[[str, Any, Scope], Predicate]]] = {
    "$and": _and,
    "$or": _or,
    "$nor": _nor,
    "$expr": _expr,
    "$jsonSchema": _json_schema,
    "$alwaysTrue": _constant,
    "$alwaysFalse": _constant,
    "$sampleRate": _sample_rate,
    "$where": lambda _name, argument, scope: compile_where(argument, scope),
    "$text": _text,
    "$ref": _reference,
    "$id": _reference,
    "$db": _reference,
    "$comment": lambda _name, _argument, _scope: lambda _document: True,
}
# The operators whose arguments hold conditions, for those who walk through filters.
_CONTAINING: Final = frozenset({"$and", "$or", "$nor", "$not", "$elemMatch"})
NAMES: Final = _PATH_OPERATORS | _TOP_LEVEL.keys() | {"$not"}
"""The operators of filters."""


SEARCHES: Final = dict.fromkeys(("$text", "$where"), ErrorCode.BAD_VALUE) | dict.fromkeys(
    match_operators.NEAR, _NO_NEAR
)
"""What only the query of a collection can ask, with the code of its refusal elsewhere."""

SPECIAL: Final = SEARCHES | dict.fromkeys(("$expr", "$jsonSchema"), ErrorCode.QUERY_FEATURE_NOT_ALLOWED)
"""What a filter that is about elements of arrays cannot ask, with the code of its refusal."""


def refuse_operators(query: Mapping[str, Any], refused: Mapping[str, int]) -> None:
    """Refuse operators wherever a filter has them. Raises `CommandError` with the code of the first.

    It walks into all that looks like operators, a value to equal included.
    """
    for name, argument in query.items():
        if name in refused:
            subject = "$geoNear, $near, and $nearSphere are" if name in match_operators.NEAR else f"{name} is"
            raise CommandError(refused[name], f"{subject} not allowed in this context")
        for inner in argument if isinstance(argument, list) else (argument,):
            if isinstance(inner, dict) and (name in _CONTAINING or is_operators(inner)):
                refuse_operators(inner, refused)


def refuse_expr(query: Mapping[str, Any]) -> None:
    """Refuse `$expr` in an upsert's filter, which pins no field to a value. Raises `CommandError` 224."""
    for name, argument in query.items():
        if name == "$expr":
            raise CommandError(
                ErrorCode.QUERY_FEATURE_NOT_ALLOWED,
                "$expr is not allowed in the query predicate for an upsert",
            )
        for branch in argument if name in {"$and", "$or", "$nor"} and isinstance(argument, list) else ():
            if isinstance(branch, dict):
                refuse_expr(branch)


def equalities(query: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the fields that a filter pins to a value: what an upsert begins with."""
    for name, condition in query.items():
        if name == "$and":
            for item in condition:
                yield from equalities(item)
        elif name == "$or" and len(condition) == 1:
            yield from equalities(condition[0])
        elif not name.startswith("$"):
            pinned = _pinned(condition)
            if pinned is not MISSING:
                yield name, pinned


def _pinned(condition: Any) -> Any:
    """Return the value that a condition requires, `MISSING` if it leaves a choice.

    Beside `$eq`, `$in` and `$all` of one value are equalities; a regular expression never is.
    """
    if isinstance(condition, _REGEXES):
        return MISSING
    if not is_operators(condition):
        return condition
    if "$eq" in condition:
        return condition["$eq"]
    for operator in ("$all", "$in"):
        if len(condition.get(operator, ())) == 1 and not isinstance(condition[operator][0], _REGEXES):
            item = condition[operator][0]
            return MISSING if is_operators(item) else item
    return MISSING
