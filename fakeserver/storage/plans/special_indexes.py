"""The documents that text and geographic indexes refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import WriteError
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.values.paths import read, split
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import MISSING, is_number
from fakeserver.waiting.first_use import at_first_use

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.storage.port.engine import Document, IndexSpec

    Check: TypeAlias = Callable[[Document], object]

_geo_shapes = at_first_use("fakeserver.storage.filters.geo_shapes")
_text_search = at_first_use("fakeserver.storage.filters.text_search")

_NO_GEO_KEYS: Final = 16755
_NO_LOCATION: Final = 16804
_EMPTY_LOCATION: Final = 13067
_ONE_NUMBER: Final = 13068
_NO_PAIR: Final = 13026
_OUT_OF_BOUNDS: Final = 13027
_EDGE: Final = 180.0
_PAIR: Final = 2


def check_of(spec: IndexSpec) -> Check | None:
    """Return how an index refuses a document that it cannot hold (`WriteError`); None if it never does."""
    checks: list[Check] = []
    for name, kind in spec.key.items():
        if kind == "2dsphere":
            checks.append(_spherical(split(name)))
        elif kind == "2d":
            checks.append(_flat(split(name), spec.document))
    if "text" in spec.key.values():
        checks.append(_text_search.TextIndex.of(spec).check)
    if not checks:
        return None
    partial = spec.document.get("partialFilterExpression")
    covers = compile_filter(partial) if partial is not None else None

    def check(document: Document) -> None:
        if covers is None or covers(document):
            for each in checks:
                each(document)

    return check


def _spherical(parts: tuple[str, ...]) -> Check:
    def check(document: Document) -> None:
        for value in read(document, parts):
            for each in _geo_shapes.candidates(value):
                if each is MISSING or each is None:
                    continue
                try:
                    _geo_shapes.parse(each)
                except _geo_shapes.BadShapeError as error:
                    raise WriteError(
                        _NO_GEO_KEYS, f"Can't extract geo keys: {show(document)}  {error}"
                    ) from None

    return check


def _flat(parts: tuple[str, ...], options: Mapping[str, Any]) -> Check:
    least = _geo_shapes.number(options.get("min", -_EDGE))
    most = _geo_shapes.number(options.get("max", _EDGE))

    def check_pair(value: Any, document: Document) -> None:
        if not isinstance(value, dict | list):
            raise WriteError(_NO_LOCATION, "location object expected, location array not in correct format")
        items = list(value.values()) if isinstance(value, dict) else value
        if not items:
            raise WriteError(_EMPTY_LOCATION, "geo field is empty")
        if len(items) < _PAIR:
            raise WriteError(_ONE_NUMBER, "geo field only has 1 element")
        if not all(is_number(each) for each in items[:_PAIR]):
            raise WriteError(_NO_PAIR, "geo values must be 'legacy coordinate pairs' for 2d indexes")
        if not all(least <= _geo_shapes.number(each) < most for each in items[:_PAIR]):
            raise WriteError(
                _OUT_OF_BOUNDS,
                f"point not in interval of [ {least:g}, {most:g} ] :: caused by :: {show(document)}",
            )

    def check(document: Document) -> None:
        for value in read(document, parts):
            if value is MISSING or value is None or value == []:
                continue
            several = isinstance(value, list) and isinstance(value[0], dict | list)
            for each in value if several else [value]:
                check_pair(each, document)

    return check
