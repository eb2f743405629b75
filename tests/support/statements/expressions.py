"""Aggregation expressions, by the tables of the operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import Code, Regex

from fakeserver.storage.expressions import (
    arithmetic_operators,
    array_operators,
    compiler,
    date_operators,
    string_operators,
)
from statements.values import DATES, PATTERNS, TEXTS, TYPES, UNITS, ZONES, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from fakeserver.storage.expressions.functions import Function


EXPRESSIONS = (*compiler.FUNCTIONS.functions, *compiler._FORMS)
FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S.%LZ", "%j %u %G %V %z %Z", "%Q", "%", "%b %B", "")

Makers = dict[str, "Callable[[], Any]"]


class Expressions(Values):
    """Draws expressions, and what they share with the rest of the language."""

    def __init__(self, rng: Random, wrong: float) -> None:
        super().__init__(rng, wrong)
        self.said: set[str] = set()
        """The operators, stages and commands that were drawn."""

    def say(self, kind: str, name: str) -> str:
        """Note that a name was drawn, and return it."""
        self.said.add(f"{kind} {name}")
        return name

    def parts(
        self, needed: Mapping[str, Callable[[], Any]], optional: Mapping[str, Callable[[], Any]]
    ) -> Any:
        """Return named arguments; now and then one is missing, is of a wrong type, or nobody knows it."""
        made = {name: self.or_wrong(make) for name, make in needed.items()}
        made |= {name: self.or_wrong(make) for name, make in optional.items() if self.chance(0.4)}
        if made and self.chance(self.wrong / 2):
            del made[self.pick(tuple(made))]
        if self.chance(self.wrong / 4):
            made[self.file_name() or "surplus"] = self.anything()
        return self.anything() if self.chance(self.wrong / 2) else made

    def sort(self) -> Any:
        """Return an order."""

        def direction() -> Any:
            return self.pick((1, -1, 1, -1, 1.0, 0, {"$meta": "textScore"}))

        return {self.path(): self.or_wrong(direction) for _ in range(self.rng.randint(1, 2))}

    def expression(self, depth: int = 2) -> Any:
        """Return an aggregation expression."""
        if depth == 0 or self.chance(0.25):
            return self.one_of(self.reference, self.scalar, self.reference)
        name = self.say("expression", self.pick(EXPRESSIONS))
        return {name: self.or_wrong(lambda: self._argument(name, depth - 1))}

    def reference(self) -> str:
        """Return a field or a variable."""
        return str(
            self.pick(("$a", "$b", "$c", "$d", "$a.b", "$a.0", "$_id", "$$ROOT", "$$CURRENT.a", "$$NOW"))
        )

    def _argument(self, name: str, depth: int) -> Any:
        forms = self._forms(depth)
        if name in forms:
            return forms[name]()
        function = compiler.FUNCTIONS.get(name)
        if function is None:
            return self.one_of(
                lambda: self.expression(depth), lambda: self.several(lambda: self.expression(depth), 1)
            )
        if function.arguments is not None:
            return self._named(name, depth)
        return self._positional(function, depth)

    def _positional(self, function: Function, depth: int) -> Any:
        count = self.rng.randint(
            function.least, function.least + 2 if function.most is None else function.most
        )
        if self.chance(self.wrong / 2):
            count += self.pick((-1, 1))
        usual = next((make for table, make in self._families() if function.name in table), self.value)
        arguments = [usual() if self.chance(0.7) else self.expression(depth) for _ in range(count)]
        return arguments[0] if count == 1 and not isinstance(arguments[0], list) else arguments

    def _families(self) -> tuple[tuple[Mapping[str, Any], Callable[[], Any]], ...]:
        """The tables of operators, each with what its operators are usually given."""
        return (
            (
                arithmetic_operators.functions.functions,
                lambda: self.one_of(self.small, self.small, self.number),
            ),
            (arithmetic_operators.functions.functions, self.small),
            (string_operators.functions.functions, lambda: self.pick(("a", "bc", "é", "$c", 0, 1))),
            (
                array_operators.functions.functions,
                lambda: self.one_of(lambda: self.several(self.scalar), self.small),
            ),
            (date_operators.functions.functions, lambda: self.pick((*DATES, "$d"))),
        )

    def _forms(self, depth: int) -> Makers:
        def of() -> Any:
            return self.expression(depth)

        def array() -> Any:
            return self.one_of(lambda: "$a", lambda: self.several(of), of)

        def variable() -> str:
            return str(self.pick(("v", "this", "A", "", "v.w")))

        def inner() -> Any:
            return self.one_of(of, lambda: self.pick(("$$v", "$$this", "$$value", "$$v.a")))

        def branch() -> Any:
            return self.parts({"case": of, "then": of}, {})

        return {
            "$literal": self.value,
            "$const": self.value,
            "$rand": dict,
            "$cond": lambda: self.one_of(
                lambda: [of(), of(), of()], lambda: self.parts({"if": of, "then": of, "else": of}, {})
            ),
            "$ifNull": lambda: self.several(of, 2),
            "$switch": lambda: self.parts({"branches": lambda: self.several(branch, 1)}, {"default": of}),
            "$let": lambda: self.parts({"vars": lambda: {variable() or "v": of()}, "in": inner}, {}),
            "$map": lambda: self.parts({"input": array, "in": inner}, {"as": variable}),
            "$filter": lambda: self.parts({"input": array, "cond": inner}, {"as": variable, "limit": of}),
            "$reduce": lambda: self.parts({"input": array, "initialValue": of, "in": inner}, {}),
            "$getField": lambda: self.one_of(
                self.path, lambda: self.parts({"field": self.path, "input": of}, {})
            ),
            "$setField": lambda: self.parts({"field": self.path, "input": lambda: "$$ROOT", "value": of}, {}),
            "$unsetField": lambda: self.parts({"field": self.path, "input": lambda: "$$ROOT"}, {}),
            "$in": lambda: [of(), array()],
            "$meta": lambda: self.pick(("sortKey", "textScore", "recordId", "x")),
            "$median": lambda: self.quantile("$median", array),
            "$percentile": lambda: self.quantile("$percentile", array),
            "$createObjectId": dict,
            "$function": self._function,
            **{name: lambda: [of(), of()] for name in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp")},
            # Small numbers: see MULTIPLYING.
            "$range": lambda: [
                self.pick((0, 1, 5, -3, None, "a", 2.5)),
                self.small(),
                self.pick((1, 2, -1, 0)),
            ],
        }

    def _function(self) -> Any:
        body = Code("function(value) { return value; }")
        arguments: Makers = {"args": lambda: self.several(self.reference), "lang": lambda: "js"}
        return self.parts({"body": lambda: self.pick((body, "return 1", 1)), **arguments}, {})

    def quantile(self, name: str, source: Callable[[], Any]) -> Any:
        """Return the arguments of `$median` or `$percentile`."""
        needed: Makers = {"input": source, "method": lambda: self.pick(("approximate", "discrete"))}
        p: Makers = {"p": lambda: self.pick(([0.5], [0, 1], [0.1], [2], 0.5, []))}
        return self.parts({**needed, **p} if name == "$percentile" else needed, {})

    def _named(self, name: str, depth: int) -> Any:
        def of() -> Any:
            return self.expression(depth)

        def date() -> Any:
            return self.one_of(of, lambda: "$d", lambda: self.pick(DATES))

        def text() -> Any:
            return self.one_of(of, lambda: "$c", lambda: self.pick(TEXTS))

        def pattern() -> Any:
            return self.one_of(
                lambda: self.pick(PATTERNS), lambda: Regex(self.pick(PATTERNS), self.pick(("", "i")))
            )

        def zone() -> Any:
            return self.pick(ZONES)

        def unit() -> Any:
            return self.pick(UNITS)

        def whole() -> Any:
            return self.small()

        zoned = {"timezone": zone}
        ranged = {"startDate": date, "endDate": date, "unit": unit}
        needs: dict[str, tuple[Makers, Makers]] = {
            "$zip": ({"inputs": lambda: self.several(lambda: "$a", 1)}, {"useLongestLength": lambda: True}),
            "$sortArray": (
                {"input": lambda: "$a", "sortBy": lambda: self.one_of(lambda: self.pick((1, -1)), self.sort)},
                {},
            ),
            "$dateToParts": ({"date": date}, {**zoned, "iso8601": lambda: True}),
            "$dateFromParts": (
                {"year": lambda: self.pick((2020, 1, 9999, 0, 10000))},
                {
                    **zoned,
                    **dict.fromkeys(("month", "day", "hour", "minute", "second", "millisecond"), whole),
                },
            ),
            "$dateToString": ({"date": date}, {**zoned, "format": lambda: self.pick(FORMATS), "onNull": of}),
            "$dateFromString": (
                {"dateString": text},
                {**zoned, "format": lambda: self.pick(FORMATS), "onNull": of, "onError": of},
            ),
            "$dateAdd": ({"startDate": date, "unit": unit, "amount": whole}, zoned),
            "$dateSubtract": ({"startDate": date, "unit": unit, "amount": whole}, zoned),
            "$dateDiff": (dict(ranged), {**zoned, "startOfWeek": lambda: self.pick(("monday", "Mon", "x"))}),
            "$dateTrunc": ({"date": date, "unit": unit}, {**zoned, "binSize": whole}),
            "$convert": (
                {"input": of, "to": lambda: self.pick((*TYPES, 1, 16, 99))},
                {"onError": of, "onNull": of, "format": lambda: self.pick(("base64", "hex", "uuid"))},
            ),
            **{trim: ({"input": text}, {"chars": text}) for trim in ("$trim", "$ltrim", "$rtrim")},
            **{
                replace: ({"input": text, "find": text, "replacement": text}, {})
                for replace in ("$replaceOne", "$replaceAll")
            },
            **{
                find: ({"input": text, "regex": pattern}, {"options": lambda: self.pick(("i", "x", "q"))})
                for find in ("$regexMatch", "$regexFind", "$regexFindAll")
            },
            **{
                several: ({"n": self.small, "input": lambda: "$a"}, {})
                for several in ("$firstN", "$lastN", "$minN", "$maxN")
            },
        }
        if name in needs:
            return self.parts(*needs[name])
        return self.one_of(date, lambda: [date()], lambda: self.parts({"date": date}, zoned))
