"""Frozen dataclasses from a document that knows its lines: strict, by their own fields and annotations.

A value that may be one of several classes names its class in lower case: `no_retry`, or with fields
`fixed: {interval: 0.1}`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from harness.unified.errors import ScenarioError
from mongowire.documents.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mongowire.documents.marks import Marked

_SOLE_SHARE: Final = 1.0
"""The share of the only member of a mixture."""


def build(kind: Any, document: Marked) -> Any:
    """Return a value of a type, made of a document.

    `kind` may be a dataclass, `bool`, `int`, `float`, `str`, a `Literal`, a tuple or a union of these. A
    tuple of pairs of a number and a value takes a value alone as well: it is the whole of the mixture.
    Raises `ScenarioError`, with line and field, for what does not fit.
    """
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, document)
    origin = get_origin(kind)
    if origin is Literal:
        return _one_of(get_args(kind), document)
    if origin is tuple:
        return _tuple(get_args(kind), document)
    if origin in {Union, UnionType}:
        return _union(get_args(kind), document)
    return _scalar(kind, document)


def parts(value: Any) -> Any:
    """Return a built value as JSON has it, with the names of classes: equal values give equal documents."""
    if dataclasses.is_dataclass(value):
        fields = {each.name: parts(getattr(value, each.name)) for each in dataclasses.fields(value)}
        return {"is": name_of(type(value)), **fields}
    if isinstance(value, tuple):
        return [parts(each) for each in value]
    return value


def name_of(kind: Any) -> str:
    """Return the name of a class as documents spell it: `no_retry` for `NoRetry`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


def _dataclass(kind: Any, document: Marked) -> Any:
    fields = {each.name: each for each in dataclasses.fields(kind) if each.init}
    if not isinstance(document.value, dict):
        raise _wrong(document, f"a mapping with the fields of {name_of(kind)}")
    for name in document.value:
        if name not in fields:
            raise unknown(document[name], "field", name, fields)
    missing = [name for name, each in fields.items() if name not in document.value and _is_needed(each)]
    if missing:
        raise ScenarioError(
            f"lacks {missing[0]!r}", location=document.location, fix=f"{name_of(kind)} needs it"
        )
    hints = _hints(kind)
    values = {name: build(hints[name], document[name]) for name in document.value}
    try:
        return kind(**values)
    except (ValueError, TypeError) as error:
        raise ScenarioError(str(error), location=document.location) from error


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _union(kinds: Sequence[Any], document: Marked) -> Any:
    if document.value is None and NoneType in kinds:
        return None
    classes = {name_of(each): each for each in kinds if dataclasses.is_dataclass(each)}
    others = [each for each in kinds if each is not NoneType and not dataclasses.is_dataclass(each)]
    if len(classes) == 1 and not others:
        return build(next(iter(classes.values())), document)
    if not classes and len(others) == 1:
        return build(others[0], document)
    if classes and not others:
        return _named(classes, document)
    for kind in others:
        try:
            return build(kind, document)
        except ScenarioError as error:
            last = error
    raise last


def _named(classes: Mapping[str, Any], document: Marked) -> Any:
    """Return the value of a class that the document names, alone or above its fields."""
    value = document.value
    if isinstance(value, str):
        if value not in classes:
            raise unknown(document, "kind", value, classes)
        return _dataclass(classes[value], dataclasses.replace(document, value={}))
    if not isinstance(value, dict) or len(value) != 1:
        raise _wrong(document, f"one of {', '.join(classes)}, with its fields below it")
    (name,) = value
    if name not in classes:
        raise unknown(document[name], "kind", name, classes)
    inside = document[name]
    return _dataclass(classes[name], dataclasses.replace(inside, value=inside.value or {}))


def _tuple(kinds: Sequence[Any], document: Marked) -> tuple[Any, ...]:
    repeated = kinds[-1] is Ellipsis
    if repeated and _is_share(kinds[0]) and not isinstance(document.value, list):
        return ((_SOLE_SHARE, build(get_args(kinds[0])[1], document)),)
    if not isinstance(document.value, list):
        raise _wrong(document, "a list")
    items = document.items()
    if repeated:
        return tuple(build(kinds[0], each) for each in items)
    if len(items) != len(kinds):
        raise _wrong(document, f"a list of {len(kinds)}")
    return tuple(build(kind, each) for kind, each in zip(kinds, items, strict=True))


def _is_share(kind: Any) -> bool:
    return get_origin(kind) is tuple and get_args(kind)[0] is float and get_args(kind)[1] is not Ellipsis


def _one_of(allowed: Sequence[Any], document: Marked) -> Any:
    if document.value in allowed and type(document.value) in {type(each) for each in allowed}:
        return document.value
    raise unknown(document, "value", document.value, [str(each) for each in allowed])


_Check: TypeAlias = Callable[[Any], bool]

_SCALARS: Final[Mapping[Any, tuple[str, _Check]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    str: ("a text", lambda value: isinstance(value, str)),
}


def _scalar(kind: Any, document: Marked) -> Any:
    name, fits = _SCALARS[kind]
    if not fits(document.value):
        raise _wrong(document, name)
    return kind(document.value)


def _wrong(document: Marked, wanted: str) -> ScenarioError:
    return ScenarioError(f"must be {wanted}, not {_shown(document.value)}", location=document.location)


def unknown(document: Marked, what: str, name: object, allowed: Iterable[str]) -> ScenarioError:
    """Return the error for a name that does not exist, with the one that was meant or all that do."""
    known = [*allowed]
    fix = did_you_mean(name, known, f"there {'are' if len(known) > 1 else 'is'} {', '.join(known)}")
    return ScenarioError(f"unknown {what} {_shown(name)}", location=document.location, fix=fix)


def _shown(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
        case _:
            return repr(value)
