"""Large inputs for expressions, accumulators and window functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import DatetimeMS

from benchmarks.large_documents import Case, Document, aggregate, project
from fakeserver.storage.expressions import accumulators, compiler, date_operators, quantiles
from fakeserver.storage.stages import window_functions

if TYPE_CHECKING:
    from collections.abc import Iterator

_JS: Final = "function(a) { return a; }"
_LARGE: Final = ("$a", "$s", "$d", "$o", "$f", "$strings", "$pairs", "$objects", "$n", "$date")
"""What expressions are tried with, in all places and in the first one."""


def _named(size: int) -> dict[str, list[Any]]:
    """Return the arguments of expressions that take named ones, or special ones."""
    array, text = "$a", "$s"
    search = [
        {"input": text, "regex": regex}
        for regex in ("zz", "[az]z", "(a|b)+c", "a" * 4000, "(?i)" + "a" * 2000)
    ]
    replace = [
        {"input": text, "find": "ab", "replacement": "c"},
        {"input": text, "find": "b a", "replacement": ""},
    ]
    n_of = [{"n": size // 2, "input": array}, {"n": 5, "input": "$objects"}]
    trim = [{"input": text, "chars": "ab "}, {"input": text, "chars": text}, {"input": text}]
    dates = ["$date", {"date": "$date", "timezone": "Europe/Berlin"}]
    unit: Document = {"startDate": "$date", "unit": "month", "amount": 100_000}
    branches = [{"case": {"$eq": ["$n", n + 2]}, "then": n} for n in range(size // 10)]
    names = {f"v{n}": n for n in range(size // 2)}
    quantile = [{"input": source, "method": "approximate"} for source in (array, "$f")]
    return {
        "$zip": [{"inputs": [array, "$b"]}, {"inputs": [array, "$n_"], "useLongestLength": True}],
        "$sortArray": [
            {"input": "$b", "sortBy": 1},
            {"input": "$objects", "sortBy": {"f1": 1}},
            {"input": "$o", "sortBy": {"v": -1, "k": 1}},
            {"input": "$strings", "sortBy": -1},
        ],
        **dict.fromkeys(("$firstN", "$lastN", "$minN", "$maxN"), n_of),
        **dict.fromkeys(("$regexFind", "$regexFindAll", "$regexMatch"), search),
        **dict.fromkeys(("$replaceAll", "$replaceOne"), replace),
        **dict.fromkeys(("$trim", "$ltrim", "$rtrim"), trim),
        "$convert": [{"input": each, "to": "bool", "onError": 1} for each in (array, text, "$d")],
        "$dateAdd": [unit],
        "$dateSubtract": [unit],
        "$dateDiff": [{"startDate": "$date", "endDate": DatetimeMS(0), "unit": "second"}],
        "$dateTrunc": [{"date": "$date", "unit": "minute", "binSize": 7}],
        "$dateFromParts": [{"year": 2020, "month": 10_000}],
        "$dateFromString": [
            {"dateString": text, "onError": 1},
            {"dateString": "2020-01-01", "format": "%Y-%m-%d" + "x" * size, "onError": 1},
        ],
        "$dateToParts": [{"date": "$date", "iso8601": True}],
        "$dateToString": [{"date": "$date", "format": "%Y" * size}],
        "$literal": [list(range(size))],
        "$const": [list(range(size))],
        "$rand": [{}],
        "$createObjectId": [{}],
        "$meta": ["indexKey"],
        "$function": [
            {"body": _JS, "args": [array], "lang": "js"},
            {"body": "function() { for (let i = 0; i < 1e9; i++) {} }", "args": [], "lang": "js"},
        ],
        "$cond": [["$n", array, "$b"]],
        "$switch": [{"branches": branches, "default": 0}],
        "$let": [{"vars": names, "in": "$$v1"}],
        "$map": [
            {"input": array, "in": {"$add": ["$$this", 1]}},
            {"input": array, "in": "$$this"},
            {"input": "$objects", "in": {"$let": {"vars": {"y": "$$this"}, "in": "$$y.f1"}}},
        ],
        "$filter": [{"input": array, "cond": {"$gt": ["$$this", 5]}}],
        "$reduce": [{"input": array, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}],
        "$getField": [{"field": "f1", "input": "$d"}],
        "$setField": [{"field": "f1", "input": "$d", "value": array}],
        "$unsetField": [{"field": "f1", "input": "$d"}],
        "$in": [[-1, array], ["x", "$objects"], ["$d", "$o"], [array, "$pairs"]],
        "$median": quantile,
        "$percentile": [{**each, "p": [0.1, 0.5]} for each in quantile],
        "$range": [[0, size * 10]],
        "$split": [[text, " "], [text, "ab"]],
        "$pow": [["$n", 1_000_000], [1.5, 3]],
        "$concat": [["$s"] * 20, ["a"] * size],
        "$strcasecmp": [[text, text]],
        "$indexOfBytes": [[text, "zz"], [text, "b a b a c"]],
        "$indexOfCP": [[text, "zz"], [text, "b a b a c"]],
        "$substr": [[text, 1, size], [text, size, size]],
        "$substrBytes": [[text, 1, size], [text, size, size]],
        "$substrCP": [[text, 1, size], [text, size, size]],
        "$arrayToObject": ["$o"],
        **dict.fromkeys(date_operators.PARTS, dates),
        "$tsIncrement": ["$ts"],
        "$tsSecond": ["$ts"],
    }


def expression_cases(size: int) -> Iterator[Case]:
    """Yield cases for each expression: what is special about it, and large values in all its places."""
    named = _named(size)
    for name in (*compiler.FUNCTIONS.functions, *compiler._FORMS):  # noqa: SLF001 -- the table
        function = compiler.FUNCTIONS.get(name)
        for number, argument in enumerate(named.get(name, [])):
            yield Case("expression", name, f"own {number}", project({name: argument}))
        if (function is not None and function.arguments is not None) or name in {"$literal", "$const"}:
            continue
        counts = [2] if function is None else [max(function.least, 1)]
        for count in counts:
            for large in _LARGE:
                yield Case("expression", name, f"{large}, {count} times", project({name: [large] * count}))
                if count > 1:
                    arguments = [large, "$n", *[1] * (count - 2)]
                    yield Case("expression", name, f"{large} and small ones", project({name: arguments}))
        if function is None or function.most is None:
            for what, each in (
                ("numbers", 1),
                ("arrays", [1]),
                ("documents", {"$literal": {"a": 1}}),
                ("strings", "x"),
            ):
                yield Case("expression", name, f"many {what}", project({name: [each] * size}))


_LITERALS: Final = "literals and paths"


def document_cases(size: int) -> Iterator[Case]:
    """Yield cases of expressions that are no operators."""
    yield Case("expression", _LITERALS, "array", project(list(range(size))))
    yield Case("expression", _LITERALS, "object", project({f"f{n}": n for n in range(size)}))
    yield Case("expression", _LITERALS, "paths", project({f"f{n}": f"$d.f{n}" for n in range(size)}))
    yield Case("expression", _LITERALS, "a path through an array", project("$objects.f1"))


def _arguments_of(name: str) -> list[Any]:
    by = {"sortBy": {"n": -1}, "output": "$n"}
    quantile = {"input": "$n", "method": "approximate"}
    code = {
        "init": "function() { return 0; }",
        "accumulate": "function(state, n) { return state + n; }",
        "accumulateArgs": ["$n"],
        "merge": "function(a, b) { return a + b; }",
        "lang": "js",
    }
    special: dict[str, list[Any]] = {
        "$count": [{}],
        "$mergeObjects": ["$o"],
        "$concatArrays": ["$a"],
        "$setUnion": ["$a"],
        "$top": [by],
        "$bottom": [by],
        "$topN": [{**by, "n": 10}],
        "$bottomN": [{**by, "n": 10}],
        "$median": [quantile],
        "$percentile": [{**quantile, "p": [0.5]}],
        "$accumulator": [code],
        **{each: [{"input": "$n", "n": 10}] for each in ("$firstN", "$lastN", "$minN", "$maxN")},
    }
    return special.get(name, ["$n", "$s", "$o", "$a"])


def accumulator_names() -> tuple[str, ...]:
    return (
        *accumulators._ACCUMULATORS,  # noqa: SLF001 -- the tables
        *accumulators._WITH_COUNT,  # noqa: SLF001
        *sorted(accumulators._BY_ORDER),  # noqa: SLF001
        *sorted(quantiles.NAMES),
        *("$count", "$accumulator"),
    )


def accumulator_cases(_size: int) -> Iterator[Case]:
    """Yield cases for each accumulator: all documents in one group, and in a hundred."""
    for name in accumulator_names():
        for argument in _arguments_of(name):
            for key in (None, "$g"):
                stage = {"$group": {"_id": key, "made": {name: argument}}}
                command = aggregate(stage, {"$project": {"_id": 1}})
                yield Case("accumulator", name, f"{argument} by {key}", command)


def window_cases(_size: int) -> Iterator[Case]:
    """Yield cases for each window function: whole partitions, and windows of a few documents."""
    special: dict[str, tuple[Any, bool]] = {
        "$rank": ({}, False),
        "$denseRank": ({}, False),
        "$documentNumber": ({}, False),
        "$shift": ({"output": "$n", "by": 1}, False),
        "$derivative": ({"input": "$n"}, True),
        "$integral": ({"input": "$n"}, True),
        "$expMovingAvg": ({"input": "$n", "N": 5}, False),
        "$minMaxScaler": ({"input": "$n"}, True),
        "$locf": ("$n", False),
        "$linearFill": ("$n", False),
        "$covariancePop": (["$n", "$g"], True),
        "$covarianceSamp": (["$n", "$g"], True),
    }
    windows: list[tuple[str, Document]] = [
        ("whole", {}),
        ("of three", {"window": {"documents": [-1, 1]}}),
        ("until here", {"window": {"documents": ["unbounded", "current"]}}),
        ("of a range", {"window": {"range": [-2, 2]}}),
    ]
    for name in window_functions._FUNCTIONS:  # noqa: SLF001 -- the table
        argument, has_window = special.get(name, (_arguments_of(name)[0], True))
        for what, window in windows if has_window else windows[:1]:
            output = {"made": {name: argument, **window}}
            stage = {"$setWindowFields": {"sortBy": {"x": 1}, "output": output}}
            yield Case("window function", name, what, aggregate(stage, {"$count": "n"}, maxTimeMS=2_000))
