"""Accumulators and window functions, by their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import Code

from fakeserver.storage.expressions import accumulators
from fakeserver.storage.stages import window_functions
from statements.updates import Updates
from statements.values import UNITS

if TYPE_CHECKING:
    from statements.expressions import Makers

ACCUMULATORS = (
    *(*accumulators._ACCUMULATORS, *accumulators._WITH_COUNT, *sorted(accumulators._BY_ORDER)),
    *("$median", "$percentile", "$accumulator"),
)
WINDOWED = tuple(window_functions._FUNCTIONS)
WINDOWS = (("unbounded", "current"), (-1, 1), (0, 2), ("current", "unbounded"), (1, -1))


class Accumulators(Updates):
    """Draws what groups and windows compute."""

    def accumulator(self) -> Any:
        """Return an accumulator of a group."""
        return self._accumulated(self.say("accumulator", self.pick(ACCUMULATORS)))

    def _accumulated(self, name: str) -> Any:
        by_order = {"sortBy": self.sort, "output": self._summed}
        if name in ("$top", "$bottom"):
            return {name: self.parts(by_order, {})}
        if name in ("$topN", "$bottomN"):
            return {name: self.parts({**by_order, "n": self.small}, {})}
        if name in ("$firstN", "$lastN", "$minN", "$maxN"):
            return {name: self.parts({"input": self._summed, "n": self.small}, {})}
        if name in ("$median", "$percentile"):
            return {name: self.quantile(name, self._summed)}
        if name == "$accumulator":
            return {name: self._scripted()}
        if name in ("$concatArrays", "$setUnion"):
            return {name: self.or_wrong(lambda: [self.expression(0)])}
        return {name: self.or_wrong(lambda: {} if name == "$count" else self._summed())}

    def _summed(self) -> Any:
        return self.pick(("$n", "$$ROOT", "$t")) if self.chance(0.4) else self.expression(1)

    def _scripted(self) -> Any:
        functions = {
            "init": lambda: self.pick((Code("function() { return 0; }"), "x")),
            "accumulate": lambda: Code("function(state, value) { return state + value; }"),
            "accumulateArgs": lambda: ["$n"],
            "merge": lambda: Code("function(one, other) { return one + other; }"),
            "lang": lambda: "js",
        }
        finalize = {"finalize": lambda: Code("function(state) { return state * 2; }")}
        return self.parts(functions, {"initArgs": list, **finalize})

    def windowed(self, key: str) -> Any:
        """Return what a stage computes over windows of documents in the order of `key`."""
        name = self.say("window function", self.pick(WINDOWED))
        functions = self._window_functions(key)
        made = {name: self.or_wrong(functions[name])} if name in functions else self._accumulated(name)
        return {**made, "window": self.or_wrong(lambda: self._window(key))} if self.chance(0.4) else made

    def _window(self, key: str) -> Any:
        low, high = self.pick(WINDOWS)
        kind = self.pick(("documents", "documents", "range"))
        unit: Makers = {"unit": lambda: self.pick(UNITS)} if kind == "range" and key == "t" else {}
        return self.parts({kind: lambda: [low, high]}, unit)

    def _window_functions(self, key: str) -> Makers:
        """What the functions take that are no accumulators; those of time want a unit, others none."""
        of = self._summed
        unit: Makers = {"unit": lambda: self.pick(UNITS[3:])} if key == "t" else {}
        averages = self.pick(({"N": lambda: 2}, {"alpha": lambda: 0.5}))
        return {
            "$shift": lambda: self.parts({"output": of, "by": lambda: 1}, {"default": lambda: 0}),
            "$derivative": lambda: self.parts({"input": of, **unit}, {}),
            "$integral": lambda: self.parts({"input": of, **unit}, {}),
            "$expMovingAvg": lambda: self.parts({"input": of, **averages}, {}),
            "$covariancePop": lambda: [of(), of()],
            "$covarianceSamp": lambda: [of(), of()],
            "$minMaxScaler": lambda: self.parts({"input": of}, {"min": self.small, "max": self.small}),
            **dict.fromkeys(("$linearFill", "$locf"), of),
            **dict.fromkeys(("$rank", "$denseRank", "$documentNumber"), dict),
        }
