"""Aggregation expressions, compiled to closures.

An expression is compiled once per command, so that what is wrong with it (an unknown operator, an undefined
variable) is said even when there is no document to evaluate it for, as a server does.

The kinds of expressions: a string that begins with `$$` is a variable and a path behind it, one that begins
with `$` a path from `CURRENT`. An object whose first field begins with `$` is an operator, and may have no
other field. Other objects and arrays are made of expressions: a missing value becomes null in an array, and
leaves its field out of an object. All else stands for itself.

Names are resolved when an expression is compiled, values when it is evaluated: the compiler knows which
variables are defined, the frame what they are. Where the scope takes failures, constants are computed at
once, as by a server's optimizer (see `functions`). Their errors are collected rather than raised, because
whatever is malformed further on is reported before them.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError, not_implemented
from fakeserver.idl.features import EXPRESSIONS
from fakeserver.profile import WIRE_82
from fakeserver.storage.expressions import (
    arithmetic_operators,
    array_operators,
    date_operators,
    quantiles,
    string_operators,
    type_operators,
)
from fakeserver.storage.expressions.forms import FORMS, check_variable, null_if_missing
from fakeserver.storage.expressions.functions import (
    NOT_FOLDED,
    NOT_OPTIMIZED,
    VARIES,
    Constant,
    FunctionTable,
    are_constant,
    is_constant,
    joined,
)
from fakeserver.storage.expressions.scripted import compile_function
from fakeserver.storage.values.limits import checked_text
from fakeserver.storage.values.pacing import order_at_leisure, paced
from fakeserver.storage.values.paths import field_name, field_path, gather
from fakeserver.storage.values.printing import show, show_document
from fakeserver.storage.values.types import MISSING, order, truthy
from mongowire.codes import Category, ErrorCode, is_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.storage.expressions.functions import Function, NamedArguments
    from fakeserver.storage.port.engine import Evaluate, Frame, Scope

# The codes of `$$NOW` and `$$CLUSTER_TIME` differ from that of an unknown variable: a server knows the
# names, and has no values for them everywhere. Since 8.2 a standalone, which has no cluster time, has a
# code of its own for it.
_UNDEFINED_VARIABLE: Final = 17276
_NOT_AVAILABLE: Final = 51144
_NO_CLUSTER_TIME: Final = 10071200
_BUILTINS: Final = frozenset({"NOW", "CLUSTER_TIME"})
"""The variables that a server brings to most commands, not to all."""
_NOT_ONE_FIELD: Final = 15983
_NO_PATH: Final = 16872

# Operators that are functions of their operands. Those that are not are in `_FORMS`, at the end of the
# module.
FUNCTIONS: Final = FunctionTable.merge(
    arithmetic_operators.functions,
    array_operators.functions,
    string_operators.functions,
    date_operators.functions,
    type_operators.functions,
)


UNSUPPORTED: Final = frozenset({
    *("$encStrContains", "$encStrEndsWith", "$encStrNormalizedEq", "$encStrStartsWith"),
    *("$bottom", "$bottomN", "$top", "$topN"),
    *("$createUUID", "$currentDate", "$hash", "$hexHash", "$subtype"),
    *("$deserializeEJSON", "$serializeEJSON", "$toArray", "$toObject"),
    *("$similarityCosine", "$similarityDotProduct", "$similarityEuclidean"),
})  # fmt: skip
"""Expressions that a server has, most of them since 8.3, and we have not; see docs/LIMITS.md."""


_NONE_KNOWN: Final[Mapping[str, Any]] = MappingProxyType({})


def compile_expression(expression: Any, scope: Scope, names: frozenset[str] | None = None) -> Evaluate:
    """Return an expression as a function of its variables. Raises `CommandError` for a malformed one.

    Constants that fail are told to the scope, if it wants to know.

    `names` are the variables that may be used, by default those of the scope. Codes of refusals: 168 for an
    unknown operator, 17276 for an undefined variable, 15983 for two fields beside an operator, 16020 and
    28667 for a wrong number of operands. Evaluating may raise `CommandError` too.
    """
    compiler = Compiler(scope, scope.names() if names is None else names)
    compiled = compiler.compile(expression)
    if scope.failures is not None:
        scope.failures.extend(compiler.failures)
    return compiled


class Compiler:
    """Compiles expressions in which the variables `names` are defined, and some of them `known`.

    Where it optimizes, `failures` are the errors of constants, in the order in which a server meets them.
    `read` are the variables that it came upon.
    """

    def __init__(self, scope: Scope, names: frozenset[str]) -> None:
        self.scope = scope
        self.names = names
        self.optimizes = scope.failures is not None
        self.failures: list[CommandError] = []
        self.read: set[str] = set()
        # `REMOVE` is known to every optimizer: it is always the missing value, which no frame holds.
        self.known: Mapping[str, Any] = {**scope.constants(), "REMOVE": MISSING} if self.optimizes else {}

    def compile(self, expression: Any) -> Evaluate:
        """Return one expression as a function."""
        # The exact type, because `bson.Code` is a `str` in Python and a value of its own type in BSON: a
        # script that begins with a dollar sign is no path.
        if type(expression) is str and expression.startswith("$"):
            return self._variable(expression[2:]) if expression.startswith("$$") else self._field(expression)
        if isinstance(expression, dict):
            return self._object(expression)
        if isinstance(expression, list):
            compiled = [self.compile(item) for item in paced(expression)]
            return self.folded(
                lambda frame: [null_if_missing(item(frame)) for item in paced(compiled)], compiled
            )
        if type(expression) is str:
            # A literal of 16 MB or more is refused with 16493, even where nothing is made of it.
            checked_text(expression)
        return Constant(expression)

    def folded(self, evaluate: Evaluate, operands: Sequence[Evaluate]) -> Evaluate:
        """Return an operator as a constant if its operands are.

        Operators that are not in a table call this; those in tables go through `_function`.
        """
        return self.settled(evaluate) if self.optimizes and are_constant(operands) else evaluate

    def settled(self, evaluate: Evaluate) -> Evaluate:
        """Return what is the same for all documents as a constant, unless it fails.

        One that fails stays an operator, so that it fails again where a document reaches it.
        """
        try:
            # Operands are constants, which read no variable: an empty frame does.
            return Constant(evaluate({}))
        except CommandError as error:
            self._fail(error)
            return evaluate

    def _fail(self, error: CommandError) -> None:
        """Keep the error of a constant, for what is malformed is told first; an interrupted command ends."""
        if is_in(error.code, Category.INTERRUPTION):
            raise error
        self.failures.append(error)

    def apart(self, expression: Any) -> tuple[Evaluate, list[CommandError]]:
        """Return an operand with the failures of its constants, which a server may never look at.

        `$switch` decides later which of its branches a server evaluates, and then reports or drops them.
        """
        before = len(self.failures)
        compiled = self.compile(expression)
        found = self.failures[before:]
        del self.failures[before:]
        return compiled, found

    def is_constant(self, expression: Any) -> bool:
        """Return whether an expression has one value for all documents, whatever its variables mean."""
        return is_constant(expression, self.names)

    def within(self, *names: str, known: Mapping[str, Any] = _NONE_KNOWN) -> Compiler:
        """Return a compiler in which more variables are defined, and some of these known."""
        inner = Compiler(self.scope, self.names | frozenset(names))
        # Shared, not copied: what fails or is read within a body counts for the whole expression.
        inner.failures, inner.read = self.failures, self.read
        # A variable that is bound again hides the constant of the same name.
        still = {name: value for name, value in self.known.items() if name not in names}
        inner.known = {**still, **known} if self.optimizes else {}
        return inner

    def _variable(self, text: str) -> Evaluate:
        name = text.partition(".")[0]
        check_variable(name, read=True)
        if name not in self.names:
            raise self._undefined(name)
        parts = field_path(text)[1:]
        self.read.add(name)
        if name in self.known:
            return Constant(gather(self.known[name], parts))
        # `REMOVE` is in no frame, hence the default.
        return lambda frame: gather(frame.get(name, MISSING), parts)

    def _field(self, path: str) -> Evaluate:
        if path == "$":
            raise CommandError(_NO_PATH, "'$' by itself is not a valid FieldPath")
        # The path behind the variable of the document: what begins with a dot has an empty name in it.
        parts = field_path(f"CURRENT.{path[1:]}")[1:]
        self.read.add("CURRENT")
        if "CURRENT" in self.known:  # an expression has bound it
            return Constant(gather(self.known["CURRENT"], parts))
        return lambda frame: gather(frame["CURRENT"], parts)

    def _undefined(self, name: str) -> CommandError:
        if name not in _BUILTINS:
            return CommandError(_UNDEFINED_VARIABLE, f"Use of undefined variable: {name}")
        # Where there is a $$NOW there is the other too, except on a server that has no such time.
        newer = not self.scope.release or self.scope.release >= WIRE_82
        code = _NO_CLUSTER_TIME if "NOW" in self.names and newer else _NOT_AVAILABLE
        return CommandError(code, f"Builtin variable '$${name}' is not available")

    def _object(self, document: dict[str, Any]) -> Evaluate:
        # The first field decides: `{a: 1, $add: …}` is an object, whose field `$add` is then refused by
        # name.
        first = next(iter(document), "")
        if not first.startswith("$"):
            fields = [(field_name(name), self.compile(value)) for name, value in paced(document.items())]

            def evaluate(frame: Frame) -> Any:
                values = ((name, value(frame)) for name, value in paced(fields))
                return {name: value for name, value in values if value is not MISSING}

            return self.folded(evaluate, [value for _name, value in fields])
        if len(document) != 1:
            raise CommandError(
                _NOT_ONE_FIELD,
                "an expression specification must contain exactly one field, the name of the expression. "
                f"Found {len(document)} fields in {show_document(document)}",
            )
        return self._operator(first, document[first])

    def _operator(self, name: str, argument: Any) -> Evaluate:
        """Compile an operator, unless the release has none of that name (168), as for one that is misspelled.

        A server's optimizer does not descend into the operators `NOT_OPTIMIZED`: failures within them are
        dropped, and come up when a document is evaluated.
        """
        if not self.scope.knows(name, EXPRESSIONS):
            raise _unrecognized(name)
        before = len(self.failures)
        compiled = self._known_operator(name, argument)
        if name in NOT_OPTIMIZED:
            del self.failures[before:]
        return compiled

    def _known_operator(self, name: str, argument: Any) -> Evaluate:
        # Forms come first: they see their argument as it was written, functions see operands.
        form = _FORMS.get(name)
        if form is not None:
            return form(self, argument)
        function = FUNCTIONS.get(name)
        if name in UNSUPPORTED:
            raise not_implemented(f"the expression {name}")
        if function is None:
            raise _unrecognized(name)
        # A single operand may stand without an array: `{$abs: "$a"}` is `{$abs: ["$a"]}`. An operand that
        # is an array must then be written in another array.
        arguments = argument if isinstance(argument, list) else [argument]
        if function.arguments is not None:
            return self._named(function, function.arguments, argument)
        function.check(len(arguments))
        compiled = [self.compile(item) for item in paced(arguments)]
        # The collation is bound here: operands are values, which do not know how strings compare.
        call = partial(function.call, fold=self.scope.fold) if function.folds else function.call
        if self.optimizes:
            compiled = self._joined(function, compiled, call)
        return self._function(
            function, compiled, lambda frame: call(*[item(frame) for item in paced(compiled)])
        )

    def _joined(
        self, function: Function, operands: list[Evaluate], call: Callable[..., Any]
    ) -> list[Evaluate]:
        """Return operands of which neighbouring constants are computed, as they were where that fails."""
        try:
            return operands if are_constant(operands) else joined(function.name, operands, call)
        except CommandError as error:
            self._fail(error)
            return operands

    def _function(
        self, function: Function, operands: list[Evaluate] | dict[str, Evaluate], evaluate: Evaluate
    ) -> Evaluate:
        """Return an operator as a constant, or have it see which of its operands are constants."""
        if not self.optimizes or function.name in NOT_OPTIMIZED:
            return evaluate
        named: Mapping[Any, Evaluate] = dict(enumerate(operands)) if isinstance(operands, list) else operands
        if are_constant(named.values()) and function.name not in NOT_FOLDED:
            return self.settled(evaluate)
        if function.settle is not None:
            # Not all operands are constant, but those that are may be wrong, or make the result null
            # whatever the others are: a server finds that out before it sees a document.
            values = {key: each.value if type(each) is Constant else VARIES for key, each in named.items()}
            try:
                if function.settle(values):
                    return Constant(None)
            except CommandError as error:
                self._fail(error)
        return evaluate

    def _named(self, function: Function, known: NamedArguments, argument: Any) -> Evaluate:
        """Return an operator of named arguments.

        The order matters: names are checked, then `parse` reads what is no expression, and only then is the
        rest compiled. So a wrong name is reported before an undefined variable in an argument.
        """
        name, call = function.name, function.call
        # `{$year: "$at"}` and `{$year: ["$at"]}` are short for `{$year: {date: "$at"}}`.
        if name in date_operators.PARTS:
            argument = date_operators.part_arguments(name, argument)
        arguments = known.read(name, argument, self.scope.release)
        if function.parse is not None:
            arguments = function.parse(arguments)
        compiled = {key: self.compile(value) for key, value in arguments.items()}
        if function.by_release:
            call = partial(call, release=self.scope.release)
        elif function.folds:
            call = partial(call, fold=self.scope.fold)
        return self._function(
            function, compiled, lambda frame: call({key: value(frame) for key, value in compiled.items()})
        )


def _unrecognized(name: str) -> CommandError:
    return CommandError(ErrorCode.INVALID_PIPELINE_OPERATOR, f"Unrecognized expression '{name}'")


def is_expression_name(name: str) -> bool:
    """Return whether an expression may begin with that name."""
    return name in _FORMS or name in UNSUPPORTED or FUNCTIONS.get(name) is not None


def expression_names() -> frozenset[str]:
    """Return the names of all operators."""
    return frozenset(_FORMS) | frozenset(FUNCTIONS.functions)


def _meta(compiler: Compiler, argument: Any) -> Evaluate:
    """Return `$meta`: metadata of the document at the root, never of one that a form has bound.

    Errors: 17307 and 17308 for an argument that names no metadata, 40218 for metadata that this pipeline
    does not have. Which ones it has is in `Scope.meta`.
    """
    if type(argument) is not str:
        raise CommandError(17307, "$meta only supports string arguments")
    if argument not in _METADATA:
        raise CommandError(17308, f"Unsupported argument to $meta: {argument}")
    read = compiler.scope.meta.get(argument)
    if read is not None:
        return lambda frame: read(frame["ROOT"])
    if argument in _NEVER_THERE:
        return lambda _frame: MISSING
    raise CommandError(40218, f"query requires {_METADATA[argument]} metadata, but it is not available")


_NEVER_THERE: Final = frozenset({"indexKey", "randVal", "searchScore", "searchHighlights"})
"""Metadata that may be asked for anywhere, though no document has them."""
_METADATA: Final = {
    "score": "score",
    "scoreDetails": "score details",
    "searchRootDocumentId": "search root document id",
    "searchSequenceToken": "search sequence token",
    "textScore": "text score",
    "searchScore": "$search score",
    "searchHighlights": "$search highlights",
    "searchScoreDetails": "$search score details",
    "vectorSearchScore": "$vectorSearch score",
    "geoNearDistance": "$geoNear distance",
    "geoNearPoint": "$geoNear point",
    "randVal": "rand val",
    "recordId": "record ID",
    "indexKey": "index key",
    "sortKey": "sort key",
}
"""The metadata of documents, as errors name it."""


def _literal(_compiler: Compiler, argument: Any) -> Evaluate:
    """Return the argument as it is: dollar signs in it mean nothing."""
    return Constant(argument)


def _rand(compiler: Compiler, argument: Any) -> Evaluate:
    if not isinstance(argument, dict | list):
        raise CommandError(10065, "invalid parameter: expected an object ($rand)")
    if argument:
        raise CommandError(3040501, "$rand does not currently accept arguments")
    rng = compiler.scope.rng
    return lambda _frame: rng.random() if rng is not None else 0.0


def _create_object_id(compiler: Compiler, argument: Any) -> Evaluate:
    if argument != {}:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "$createObjectId does not accept arguments")
    make_id = compiler.scope.make_id
    return lambda _frame: make_id() if make_id is not None else None


def _quantile(name: str) -> Callable[[Compiler, Any], Evaluate]:
    def form(compiler: Compiler, argument: Any) -> Evaluate:
        found = quantiles.compile_quantile(name, argument, compiler.scope, compiler.compile, "expression")
        return quantiles.quantile_of(found)

    return form


def _and(compiler: Compiler, argument: Any) -> Evaluate:
    items = [compiler.compile(item) for item in paced(argument if isinstance(argument, list) else [argument])]
    # One constant false decides, wherever it stands: the operands before it are evaluated for no document,
    # and their errors do not show.
    if compiler.optimizes and _decided(items, by=False):
        return Constant(value=False)
    return compiler.folded(lambda frame: all(truthy(item(frame)) for item in paced(items)), items)


def _or(compiler: Compiler, argument: Any) -> Evaluate:
    items = [compiler.compile(item) for item in paced(argument if isinstance(argument, list) else [argument])]
    # As in `_and`, with a constant that is true.
    if compiler.optimizes and _decided(items, by=True):
        return Constant(value=True)
    return compiler.folded(lambda frame: any(truthy(item(frame)) for item in paced(items)), items)


def _decided(items: Sequence[Evaluate], *, by: bool) -> bool:
    """Return whether a constant among the operands decides before any other is evaluated."""
    return any(type(each) is Constant and truthy(each.value) is by for each in items)


def _comparison(test: Callable[[Any, Any], Any], name: str) -> Callable[[Compiler, Any], Evaluate]:
    """Return the maker of a comparison: of any two values, by their place in the order of BSON types.

    No pair of types is refused: missing is less than null, null less than numbers, numbers less than
    strings, and numbers of all types compare by value. Strings compare by the collation of the scope.
    """

    def form(compiler: Compiler, argument: Any) -> Evaluate:
        passed = len(argument) if isinstance(argument, list) else 1
        if passed != 2:  # noqa: PLR2004 -- what is compared
            message = f"Expression {name} takes exactly 2 arguments. {passed} were passed in."
            raise CommandError(16020, message)
        left, right, fold = compiler.compile(argument[0]), compiler.compile(argument[1]), compiler.scope.fold
        return compiler.folded(
            lambda frame: test(order_at_leisure(left(frame), fold), order_at_leisure(right(frame), fold)),
            (left, right),
        )

    return form


def _in(compiler: Compiler, argument: Any) -> Evaluate:
    """Return `$in`: whether an array has an element that equals a value.

    What is no array is refused with 40081, null and missing too. Unlike `$in` of a filter, it compares
    regular expressions as values, and does not look into a value that is an array.
    """
    passed = len(argument) if isinstance(argument, list) else 1
    if passed != 2:  # noqa: PLR2004 -- a value and an array
        raise CommandError(16020, f"Expression $in takes exactly 2 arguments. {passed} were passed in.")
    value, source, fold = compiler.compile(argument[0]), compiler.compile(argument[1]), compiler.scope.fold

    def evaluate(frame: Frame) -> Any:
        items = source(frame)
        if not isinstance(items, list):
            found = show(items) if items is not MISSING else "missing"
            raise CommandError(40081, f"$in requires an array as a second argument, found: {found}")
        # The key of the value is made once, those of the elements one after the other: the first that is
        # equal ends the search.
        sought = order_at_leisure(value(frame), fold)
        return any(order(item, fold) == sought for item in paced(items))

    return compiler.folded(evaluate, (value, source))


_FORMS: Final[dict[str, Callable[[Compiler, Any], Evaluate]]] = {
    "$literal": _literal,
    "$const": _literal,
    "$rand": _rand,
    "$function": compile_function,
    "$meta": _meta,
    "$createObjectId": _create_object_id,
    "$percentile": _quantile("$percentile"),
    "$median": _quantile("$median"),
    "$and": _and,
    "$or": _or,
    **FORMS,
    "$in": _in,
    "$eq": _comparison(lambda left, right: left == right, "$eq"),
    "$ne": _comparison(lambda left, right: left != right, "$ne"),
    "$gt": _comparison(lambda left, right: left > right, "$gt"),
    "$gte": _comparison(lambda left, right: left >= right, "$gte"),
    "$lt": _comparison(lambda left, right: left < right, "$lt"),
    "$lte": _comparison(lambda left, right: left <= right, "$lte"),
    "$cmp": _comparison(lambda left, right: (left > right) - (left < right), "$cmp"),
}
