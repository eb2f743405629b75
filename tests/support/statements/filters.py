"""Filters, by the tables of the operators."""

from __future__ import annotations

from functools import partial
from typing import Any

from bson import Code, Regex

from fakeserver.storage.filters import match_operators, matching
from statements.expressions import Expressions, Makers
from statements.values import PATTERNS, TYPES

_OTHERS = sorted(matching._PATH_OPERATORS)
MATCHERS = tuple(dict.fromkeys((*match_operators.LEAF_OPERATORS, *matching._COMPOUND, *_OTHERS)))
TREES = tuple(matching._TOP_LEVEL)


def geometry(kind: str, coordinates: Any) -> Makers:
    """Return what makes a shape of GeoJSON."""
    return {"type": lambda: kind, "coordinates": lambda: coordinates}


class Filters(Expressions):
    """Draws filters and JSON Schemas."""

    def filter(self, depth: int = 2) -> dict[str, Any]:
        """Return a filter."""
        conditions: dict[str, Any] = {}
        for _ in range(self.rng.randint(0, 2)):
            if depth and self.chance(0.25):
                name = self.say("filter", self.pick(TREES))
                conditions[name] = self.or_wrong(partial(self._tree, name, depth - 1))
            else:
                conditions[self.path()] = self.condition(depth)
        return conditions

    def _tree(self, name: str, depth: int) -> Any:
        made: Makers = {
            "$expr": lambda: self.expression(depth),
            "$jsonSchema": lambda: self.schema(depth),
            "$alwaysTrue": lambda: 1,
            "$alwaysFalse": lambda: 1,
            "$where": lambda: self.pick(("true", Code("true"))),
            "$text": lambda: self.parts({"$search": self.file_name}, {"$language": self.file_name}),
            "$comment": self.value,
            "$sampleRate": lambda: self.pick((0, 0.5, 1, 2)),
        }
        make = made.get(name)
        return self.several(lambda: self.filter(depth), 1) if make is None else make()

    def condition(self, depth: int = 1) -> Any:
        """Return what a filter asks of a field."""
        if self.chance(0.3):
            return self.value()
        names = [self.say("filter", self.pick(MATCHERS)) for _ in range(self.rng.randint(1, 2))]
        return {name: self.or_wrong(partial(self._operand, name, depth)) for name in names}

    def _operand(self, name: str, depth: int) -> Any:
        def inner() -> Any:
            return self.condition(depth - 1) if depth else self.value()

        made: Makers = {
            "$in": lambda: self.several(self.value),
            "$nin": lambda: self.several(self.value),
            "$all": lambda: self.several(self.value),
            "$size": self.small,
            "$mod": lambda: [self.number(), self.number()],
            "$type": lambda: self.one_of(
                lambda: self.pick(TYPES), self.small, lambda: self.several(self.small)
            ),
            "$regex": lambda: self.pick((*PATTERNS, Regex("a"))),
            "$options": lambda: self.pick(("i", "imsx", "z")),
            "$exists": lambda: self.pick((True, False, 1, 0)),
            "$not": inner,
            "$elemMatch": lambda: self.one_of(lambda: self.filter(max(depth - 1, 0)), inner),
            **dict.fromkeys(("$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear"), self._bits),
            **dict.fromkeys(("$geoWithin", "$within", "$geoIntersects"), self._area),
            **dict.fromkeys(("$near", "$nearSphere"), self._near),
            **dict.fromkeys(("$maxDistance", "$minDistance"), self.small),
        }
        return made.get(name, self.value)()

    def _bits(self) -> Any:
        one, positions = self.pick((0, 1, 35)), self.several(lambda: self.pick((0, 1, 63)))
        return one if self.chance(0.5) else positions

    # Places: points and areas, as GeoJSON and as pairs.

    def point(self) -> Any:
        """Return a point."""
        pair = [self.pick((0, 1, -10.5, 200)), self.pick((0, 2, 45.5, -91))]
        return self.one_of(lambda: pair, lambda: self.parts(geometry("Point", pair), {}))

    def _area(self) -> Any:
        ring = [[0, 0], [0, 3], [3, 3], [0, 0]]
        areas = (
            lambda: {"$geometry": self.parts(geometry("Polygon", [ring]), {})},
            lambda: {"$box": self.or_wrong(lambda: [[0, 0], [3, 3]])},
            lambda: {"$polygon": self.or_wrong(lambda: ring)},
            lambda: {self.pick(("$center", "$centerSphere")): self.or_wrong(lambda: [[0, 0], 1])},
        )
        return self.pick(areas)()

    def _near(self) -> Any:
        if self.chance(0.3):
            return self.point()
        return self.parts({"$geometry": self.point}, {"$maxDistance": self.small, "$minDistance": self.small})

    def schema(self, depth: int = 2) -> Any:
        """Return a JSON Schema."""

        def inner() -> Any:
            return self.schema(depth - 1) if depth else {}

        def schemas() -> Any:
            return self.several(inner, 1)

        def dependency() -> Any:
            return self.one_of(inner, lambda: self.several(self.path, 1))

        types = ("string", "object", "number", "array", "null", "boolean")
        return self.parts(
            {},
            {
                "type": lambda: self.pick(types),
                "bsonType": lambda: self.pick(TYPES),
                "required": lambda: self.several(self.path, 1),
                "properties": lambda: {self.path(): inner()},
                "patternProperties": lambda: {self.pick(PATTERNS): inner()},
                "additionalProperties": lambda: self.one_of(lambda: False, inner),
                "items": lambda: self.one_of(inner, schemas),
                "enum": lambda: self.several(self.value, 1),
                "exclusiveMinimum": lambda: self.pick((True, False)),
                "pattern": lambda: self.pick(PATTERNS),
                "uniqueItems": lambda: True,
                "not": inner,
                "dependencies": lambda: {self.path(): dependency()},
                "title": self.file_name,
                **dict.fromkeys(("minimum", "maximum", "multipleOf"), self.number),
                **dict.fromkeys(("minLength", "maxLength", "minItems", "minProperties"), self.small),
                **dict.fromkeys(("allOf", "anyOf", "oneOf"), schemas),
            },
        )
