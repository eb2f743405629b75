"""The stages that bring in another collection as a whole: `$lookup` and `$unionWith`.

A `$lookup` asks an index of the other collection where there is one and one value is looked for, and else
makes a table of the other documents by key, once for all documents that it joins. Its pipeline is compiled
once; what `let` binds changes from document to document in the variables of its scope.

`$graphLookup` is here, too: it joins with itself what it found, again and again, each document once.
`Others` is the table that it shares with `$lookup`; both follow one rule of equality: an array on the local
side stands for its elements, an array on the foreign side equals itself and each element, and what is
missing equals null.

A malformed stage is refused when it is compiled, though the other collection may not exist: such a one is
empty. While documents are joined, more than 100 MB of them for one document are an error (4568, 40099), as
is whatever the pipeline within meets.

Compilers are handed `compile_pipeline`, which imports this module and cannot be imported by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import Int64

from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields, check_target
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.forms import check_variable
from fakeserver.storage.expressions.functions import optimizing
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.port.engine import Searched
from fakeserver.storage.stages.projecting import set_computed
from fakeserver.storage.stages.rank_fusion import FUSIONS, not_first
from fakeserver.storage.values.limits import Volume
from fakeserver.storage.values.paths import gather, read, set_nested, split, stage_path
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import (
    MISSING,
    SCALARS,
    copy_value,
    identity,
    is_number,
    is_object,
    order,
    type_name,
    whole,
)
from fakeserver.waiting.interrupts import check_for_interrupt, interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fakeserver.storage.port.engine import Evaluate, Scope
    from fakeserver.storage.stages.flow import PipelineStage

    Document: TypeAlias = dict[str, Any]
    CompilePipeline: TypeAlias = Callable[[Sequence[Mapping[str, Any]], Scope], PipelineStage]


_MAX_GRAPH_BYTES: Final = 100 * 1024 * 1024
"""`internalDocumentSourceGraphLookupMaxMemoryBytes`, as servers have it."""
_REQUIRED: Final = ("from", "startWith", "connectFromField", "connectToField", "as")
_OPTIONAL: Final = ("maxDepth", "depthField", "restrictSearchWithMatch")


def check_collection(stage: str, argument: str, name: Any) -> None:
    """Refuse what names no collection: a text does, or `{db, coll}` of texts. Raises `CommandError` 9."""
    parts = [name.get("db"), name.get("coll")] if isinstance(name, dict) else [name]
    if any(type(part) is not str or not part for part in parts):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"{stage} argument '{argument}: {show(name)}' must be a string, is type {type_name(name)}",
        )


def _check_elsewhere(stage: str, name: Mapping[str, Any]) -> None:
    """Refuse a collection elsewhere, but for those of the server itself. Raises `CommandError` 9.

    A server's own jobs join with the two that are allowed: the chunks of a sharded collection and the
    oplog.
    """
    db, collection = name.get("db"), name["coll"]
    chunks = db == "config" and collection.startswith("cache.chunks.")
    if chunks or (db, collection) == ("local", "oplog.rs"):
        return
    raise CommandError(
        ErrorCode.FAILED_TO_PARSE,
        f"{stage} with syntax {{from: {{db:<>, coll:<>}},..}} is not supported for db: {db} and coll:"
        f" {collection}",
    )


def other_collection(name: Any, scope: Scope) -> list[Document]:
    """Return the documents of the collection that a stage joins with."""
    return scope.read(name) if name is not None and scope.read is not None else [{}]


def keys_of(document: Document, path: str, scope: Scope) -> set[Any]:
    """Return the values at a path, or the elements where it is an array, as keys; what is missing is null."""
    keys = set()
    for value in read(document, split(path)):
        for item in value if isinstance(value, list) else [value]:
            keys.add(order(None if item is MISSING else item, scope.fold))
    return keys


def equals_of(document: Document, path: str, scope: Scope) -> set[Any]:
    """Return what a field equals, as keys: its value and, of an array, each element."""
    keys = set()
    for value in read(document, split(path)):
        keys.add(order(None if value is MISSING else value, scope.fold))
        if isinstance(value, list):
            keys.update(order(item, scope.fold) for item in value)
    return keys


class Others:
    """The documents that a stage joins with, in their order, and tables of where each key stands.

    A table is made when a path is first asked for, in the time of one scan, and serves all documents that
    are joined: the join costs the sum of both collections, not their product. Results are positions, so
    that documents come in their natural order whatever the order of the keys.
    """

    def __init__(self, documents: list[Document], scope: Scope) -> None:
        self.documents = documents
        self._scope = scope
        self._tables: dict[str, dict[Any, list[int]]] = {}

    def sharing(self, document: Document, local: str, foreign: str) -> list[Document]:
        """Return those whose `foreign` field equals a value of the `local` field of `document`, or null."""
        indexes = self.holders(foreign, keys_of(document, local, self._scope) or {order(None)})
        return [self.documents[index] for index in indexes]

    def holders(self, path: str, keys: Iterable[Any]) -> list[int]:
        """Return where those stand that have one of these keys at a path, in their order."""
        table = self._tables.get(path)
        if table is None:
            table = {}
            for index, document in enumerate(interruptible(self.documents)):
                for key in equals_of(document, path, self._scope):
                    table.setdefault(key, []).append(index)
            self._tables[path] = table
        # One key, the usual case, needs no merging: its positions are in order and without repetition.
        found = [indexes for key in keys if (indexes := table.get(key)) is not None]
        return found[0] if len(found) == 1 else sorted({index for indexes in found for index in indexes})


class _Walk:
    """One run of a `$graphLookup`: breadth first, each document once.

    The documents that a value leads to are the same for each input, so that positions, ids and the keys to
    follow are kept from one input to the next; only `found` is of one input. A cycle ends because a
    document that was seen is not followed again.
    """

    def __init__(self, options: Mapping[str, Any], scope: Scope, others: list[Document]) -> None:
        self._options, self._scope = options, scope
        self._others = Others(others, scope)
        self._ids: dict[int, Any] = {}
        self._followed: dict[int, set[Any]] = {}
        self._volume = Volume()

    def found(self, start: Any) -> list[Document]:
        """Return what is reached from a value. Raises `CommandError` 40099 if it is too much."""
        reach = {order(item, self._scope.fold) for item in (start if isinstance(start, list) else [start])}
        limit = whole(self._options.get("maxDepth"))
        target, source = self._options["connectToField"], self._options["connectFromField"]
        field = self._options.get("depthField")
        seen: dict[Any, Document] = {}
        depth = total = 0
        # Depth 0 is what `startWith` reaches, so that `maxDepth: 0` follows nothing.
        while reach and (limit is None or depth <= limit):
            following: set[Any] = set()
            for index in interruptible(self._others.holders(target, reach)):
                key = self._id(index)
                if key in seen:
                    continue
                document = self._others.documents[index]
                total += self._volume.size(document)
                if total > _MAX_GRAPH_BYTES:
                    raise CommandError(40099, "$graphLookup reached maximum memory consumption")
                if field is None:
                    seen[key] = document
                else:
                    seen[key] = at_depth = {**document}
                    set_nested(at_depth, split(field), Int64(depth))
                keys = self._followed.get(index)
                if keys is None:
                    keys = self._followed[index] = keys_of(self._others.documents[index], source, self._scope)
                following |= keys
            reach = following
            depth += 1
        return list(seen.values())

    def _id(self, index: int) -> Any:
        """Return what a document is known by. Raises `CommandError` 40271 for one without an `_id`.

        Documents of a collection have one; those of a view may have lost theirs in its pipeline.
        """
        key = self._ids.get(index)
        if key is None:
            document = self._others.documents[index]
            if "_id" not in document:
                source = self._options["from"]
                name = source["coll"] if isinstance(source, dict) else source
                raise CommandError(
                    40271,
                    f"Documents in the '{name}' namespace must contain an _id for de-duplication in"
                    " $graphLookup",
                )
            key = self._ids[index] = identity(document["_id"])
        return key


def _check_graph_lookup(argument: Mapping[str, Any]) -> None:
    """Refuse arguments of a wrong type. Raises `CommandError`."""
    check_collection("$graphLookup", "from", argument["from"])
    for name in ("as", "connectFromField", "connectToField", "depthField"):
        if name in argument and type(argument[name]) is not str:
            raise CommandError(
                40103, f"expected string as argument for {name}, found: {show(argument[name])}"
            )
    if "restrictSearchWithMatch" in argument and not isinstance(argument["restrictSearchWithMatch"], dict):
        raise CommandError(
            40185,
            "restrictSearchWithMatch must be an object, found"
            f" {type_name(argument['restrictSearchWithMatch'])}",
        )
    if "maxDepth" in argument:
        depth = argument["maxDepth"]
        if not is_number(depth):
            raise CommandError(40100, f"maxDepth requires numeric argument, found type: {type_name(depth)}")
        deepest = whole(depth)
        if deepest is None:
            raise CommandError(40102, f"maxDepth could not be represented as a long long: {show(depth)}")
        if deepest < 0:
            raise CommandError(40101, f"maxDepth requires a nonnegative argument, found: {show(depth)}")


def compile_graph_lookup(argument: Any, scope: Scope) -> Callable[[list[Document]], list[Document]]:
    """Return a `$graphLookup` stage. Raises `CommandError` for a malformed one."""
    if not isinstance(argument, dict):
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "the $graphLookup specification must be an Object")
    for name in argument:
        if name not in _REQUIRED and name not in _OPTIONAL:
            raise CommandError(40104, f"Unknown argument to $graphLookup: {name}")
    # The message names all of them, whichever is missing, as a server's does.
    if any(name not in argument for name in _REQUIRED):
        raise CommandError(
            40105,
            "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be "
            "specified.",
        )
    _check_graph_lookup(argument)
    start = compile_expression(argument["startWith"], scope)
    allowed = compile_filter(argument.get("restrictSearchWithMatch") or {}, scope)

    def joined(document: Document, walk: _Walk) -> Document:
        value = start(scope.frame(document))
        changed = copy_value(document)
        set_computed(changed, split(argument["as"]), walk.found(None if value is MISSING else value))
        return dict(changed)

    def run(documents: list[Document]) -> list[Document]:
        # `restrictSearchWithMatch` is a filter on the other collection, and so is applied once, before the
        # walks.
        others = other_collection(argument["from"], scope)
        walk = _Walk(argument, scope, [other for other in interruptible(others) if allowed(other)])
        return [joined(document, walk) for document in interruptible(documents)]

    return run


_TOO_MUCH: Final = 4568
_MAX_BYTES: Final = 100 * 1024 * 1024
"""`internalLookupStageIntermediateDocumentMaxSizeBytes`, as servers have it."""
_UNION: Final = Fields.of(Field("coll", "string"), Field("pipeline", "array", of="object"))
_FIXED_BY_COMPILING: Final = frozenset({"$setWindowFields", "$percentile", "$median"})
"""Operators that take the value of a variable when they are compiled: each value needs a compilation."""
_CHANGING: Final = frozenset({"$sample", "$rand", "$function", "$accumulator", "$where", "$createObjectId"})
"""Operators that may have another result each time that they run."""


def compile_lookup(argument: Any, scope: Scope, compile_pipeline: CompilePipeline) -> PipelineStage:
    """Return a `$lookup` stage. Raises `CommandError` for a malformed one."""
    if not isinstance(argument, dict):
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "the $lookup specification must be an Object")
    argument = _lookup_options(argument)
    pipeline = argument.get("pipeline", [])
    _check_inner("$lookup", pipeline, named="from" in argument)
    variables = _variables(argument.get("let", {}), scope)
    within = _over(argument.get("from"), pipeline, scope)
    inner = _Inner(pipeline, variables, within, compile_pipeline) if pipeline or variables else None
    target = stage_path(argument["as"])

    def run(documents: list[Document]) -> list[Document]:
        if not documents:
            return []
        # A join for each run: where the stage stands within another `$lookup`, variables differ between its
        # runs, and with them all that a join keeps.
        join = _Join(argument, scope, inner)
        joined = []
        for document in interruptible(documents):
            changed = dict(document)
            set_nested(changed, target, join.found(document))
            joined.append(changed)
        return joined

    return run


class _Inner:
    """The pipeline of a `$lookup`, which runs once for each document that is joined.

    `bind` and `run` alternate. The scope that the pipeline was compiled with holds one dict of variables,
    which `bind` fills anew for each document, so that a compilation serves all of them. Operators that read
    a variable while they are compiled (`_FIXED_BY_COMPILING`) force one for each document, which is slow
    and rare.
    """

    def __init__(
        self,
        pipeline: Sequence[Mapping[str, Any]],
        variables: Mapping[str, Evaluate],
        scope: Scope,
        compile_pipeline: CompilePipeline,
    ) -> None:
        self._outer = scope
        self._variables = variables
        self._bound: dict[str, Any] = {**scope.variables, **dict.fromkeys(variables)}
        # A server optimizes the pipeline when the first document comes that is joined.
        self.scope = scope._replace(
            variables=self._bound,
            varying=scope.varying | frozenset(variables),
            failures=None if scope.failures is None else [],
        )
        self.documents = None
        """Makes the documents that the pipeline begins with, where these are of no collection."""
        if pipeline and isinstance(pipeline[0], dict) and DOCUMENTS in pipeline[0]:
            self.documents = compile_documents(pipeline[0][DOCUMENTS], self.scope)
            pipeline = pipeline[1:]
        self._run = compile_pipeline(pipeline, self.scope)
        names = _names_in(pipeline)
        self._again = None
        if names & _FIXED_BY_COMPILING:
            self._again = lambda: compile_pipeline(pipeline, self.scope)
        self.is_constant = not variables and not names & _CHANGING and self.documents is None
        """Whether its results depend on the other collection alone, so that one run serves all documents."""
        self.wanted = _equality(pipeline, self.scope) if pipeline else None

    def bind(self, document: Document) -> None:
        """Give the variables of `let` the values that they have for a document.

        Those of the stages around are taken over again, too: in a `$lookup` within another one they change.
        """
        frame = self._outer.frame(document)
        bound = {name: evaluate(frame) for name, evaluate in self._variables.items()}
        self._bound.update(self._outer.variables)
        self._bound.update(bound)

    def run(self, others: list[Document]) -> list[Document]:
        """Return what the pipeline makes of some of the other documents."""
        if self.scope.failures:
            raise optimizing(self.scope.failures, "pipeline")
        if self._again is not None:
            self._run = self._again()
        return self._run(others)


def _names_in(value: Any) -> set[str]:
    """Return the names of all fields, operators and stages in a pipeline."""
    if isinstance(value, dict):
        return set(value).union(*map(_names_in, value.values()))
    return set().union(*map(_names_in, value)) if isinstance(value, list) else set()


@dataclass(frozen=True, slots=True)
class _Equality:
    """A field of the other documents that the pipeline wants to equal a value which they do not change."""

    path: str
    value: Evaluate


def _equality(pipeline: Sequence[Mapping[str, Any]], scope: Scope) -> _Equality | None:
    """Return an equality by which a pipeline begins: `$match` of `$expr` of `$eq`, alone or among others."""
    match = pipeline[0].get("$match")
    # The equality only narrows the documents that the pipeline is run on; its `$match` still tests each. So
    # what is recognised here may be less than all equalities, but no document that passes may be lost.
    expression = match.get("$expr") if isinstance(match, dict) else None
    if not isinstance(expression, dict):
        return None
    conditions = expression["$and"] if isinstance(expression.get("$and"), list) else [expression]
    for condition in conditions:
        sides = condition.get("$eq") if isinstance(condition, dict) else None
        if isinstance(sides, list) and len(sides) == 2:  # noqa: PLR2004 -- both sides
            for path, value in (sides, sides[::-1]):
                is_path = type(path) is str and path.startswith("$") and path[1:2] not in {"", "$"}
                if is_path and _is_variable(value):
                    return _Equality(path[1:], compile_expression(value, scope))
    return None


def _is_variable(side: Any) -> bool:
    """Return whether a side of an equality is a variable: one value for all of the other documents."""
    if type(side) is not str or not side.startswith("$$"):
        return False
    return side[2:].partition(".")[0] not in {"ROOT", "CURRENT"}


class _Join:
    """One run of a `$lookup`: the other documents, read when they are needed."""

    def __init__(self, argument: Mapping[str, Any], scope: Scope, inner: _Inner | None) -> None:
        self._source = argument.get("from")
        self._local, self._foreign = argument.get("localField"), str(argument.get("foreignField"))
        self._scope, self._inner = scope, inner
        self._others: Others | None = None
        self._by_value: dict[Any, list[Document]] | None = None
        self._constant: list[Document] | None = None
        self._volume = Volume()

    @property
    def others(self) -> Others:
        if self._others is None:
            self._others = Others(other_collection(self._source, self._scope), self._scope)
        return self._others

    def found(self, document: Document) -> list[Document]:
        """Return what is joined with a document. Raises `CommandError` 4568 if it is too much."""
        found = self._found(document)
        if not self._volume.fits(found, _MAX_BYTES):
            name = self._source["coll"] if isinstance(self._source, dict) else self._source
            raise CommandError(
                _TOO_MUCH,
                f"Total size of documents in {name} matching pipeline's $lookup stage exceeds {_MAX_BYTES}"
                " bytes",
            )
        return found

    def _found(self, document: Document) -> list[Document]:
        """Return what is joined, by the cheapest way that gives the right documents.

        From `$documents` in the pipeline, which may depend on variables and so are made anew; by both
        fields, before the pipeline runs on what they select; by one run for all where nothing varies; else
        by a run of the pipeline for each document, on those that an equality leaves.
        """
        inner = self._inner
        if inner is not None and inner.documents is not None:
            inner.bind(document)
            self._others = Others(inner.documents(), self._scope)
            if self._local is None:
                return inner.run(self._others.documents)
            return inner.run(self._others.sharing(document, self._local, self._foreign))
        if self._local is not None:
            if inner is not None:
                inner.bind(document)
            related = self._related(document, self._local)
            return related if inner is None else inner.run(related)
        if inner is None:
            return self.others.documents
        if inner.is_constant:
            if self._constant is None:
                inner.bind(document)
                self._constant = inner.run(self.others.documents)
            return self._constant
        inner.bind(document)
        return inner.run(self._candidates(inner))

    def _related(self, document: Document, local: str) -> list[Document]:
        """Return the documents whose foreign field shares a value with a local field."""
        values = list(read(document, split(local)))
        # An array on the way gives several values, for which a table is no slower than as many searches.
        if len(values) == 1:
            indexed = self._indexed(self._foreign, values[0])
            if indexed is not None:
                return indexed
        return self.others.sharing(document, local, self._foreign)

    def _indexed(self, path: str, value: Any) -> list[Document] | None:
        """Return the documents that an index finds to hold a scalar, None where no index can.

        Indexes are asked without a collation and for scalars only. In all other cases the table is made.
        """
        scope = self._scope
        if scope.look_up is None or scope.fold is not None or type(value) not in SCALARS:
            return None
        return scope.look_up(self._source, path, value)

    def _candidates(self, inner: _Inner) -> list[Document]:
        """Return documents among which are all that the pipeline's first stage will let through."""
        wanted = inner.wanted
        if wanted is None:
            return self.others.documents
        value = wanted.value(inner.scope.frame({}))
        indexed = self._indexed(wanted.path, value)
        if indexed is not None:
            return indexed
        if self._by_value is None:
            self._by_value = {}
            parts = split(wanted.path)
            for other in interruptible(self.others.documents):
                key = order(gather(other, parts), self._scope.fold)
                self._by_value.setdefault(key, []).append(other)
        return self._by_value.get(order(value, self._scope.fold), [])


_LOOKUP: Final = Fields.of(
    Field(
        "from", "string|object", of=Fields.of(Field("db", "string"), Field("coll", "string", required=True))
    ),
    Field("as", "string", required=True),
    *(Field(name, "string") for name in ("localField", "foreignField")),
    Field("let", "object"),
    Field("pipeline"),
)


def _lookup_options(argument: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are there. Raises `CommandError` for those that are wrong, or lack others.

    Since 5.0 both fields and a pipeline may stand together. An empty name of a field counts as none. Checks
    are in a server's order, as the first mistake is the one that it tells: the collection before the
    fields.
    """
    options = dict(argument)
    source, pipeline = options.get("from"), options.get("pipeline", [])
    _check_begins("$lookup", pipeline, named=source is not None)
    if source is not None and type(source) is not str and not isinstance(source, dict):
        check_collection("$lookup", "from", source)
    if not isinstance(pipeline, list):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "'pipeline' option must be specified as an array")
    _LOOKUP.check(options, "$lookup")
    if source is not None:
        check_target(source if type(source) is str else source["coll"], "")
    if isinstance(source, dict):
        _check_elsewhere("$lookup", source)
    fields = [name for name in ("localField", "foreignField") if options.get(name)]
    if len(fields) == 1:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            "$lookup requires both or neither of 'localField' and 'foreignField' to be specified",
        )
    for name in fields:
        stage_path(options[name])
    if not fields:
        options.pop("localField", None)
        if "pipeline" not in options:
            message = (
                "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified"
            )
            raise CommandError(ErrorCode.FAILED_TO_PARSE, message)
    if "let" in options and "pipeline" not in options:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE, "$lookup with a 'let' argument must also specify 'pipeline'"
        )
    return options


def _variables(let: Mapping[str, Any], scope: Scope) -> dict[str, Evaluate]:
    """Return what `let` binds. Raises `CommandError` for a name that is none."""
    variables = {}
    for name, value in let.items():
        check_variable(name)
        variables[name] = compile_expression(value, scope)
    return variables


_DEEPEST: Final = 20


def deeper(scope: Scope) -> Scope:
    """Return the surroundings of a pipeline within a stage. Raises `CommandError` 232 below the 20th."""
    if scope.depth == _DEEPEST:
        raise CommandError(
            ErrorCode.MAX_SUB_PIPELINE_DEPTH_EXCEEDED,
            f"Maximum number of nested sub-pipelines exceeded. Limit is {_DEEPEST}",
        )
    return scope._replace(depth=scope.depth + 1)


def _over(name: Any, pipeline: Sequence[Mapping[str, Any]], scope: Scope) -> Scope:
    """Return the surroundings of a pipeline over another collection. Raises `CommandError` 232.

    The new scope has the indexes and the search metadata of the other collection: `$text`, `$geoNear` and
    `$meta` within are about that one, and a score of the outer documents means nothing there.
    """
    searched = Searched()
    if name is not None and scope.searched is not None:
        searched = scope.searched(name, pipeline)
    metadata = searched.metadata
    readers = {} if metadata is None else metadata.readers()
    return deeper(scope)._replace(indexes=searched.indexes, metadata=metadata, meta=readers)


def compile_union_with(argument: Any, scope: Scope, compile_pipeline: CompilePipeline) -> PipelineStage:
    """Return a `$unionWith` stage. Raises `CommandError` for a malformed one."""
    if type(argument) is not str and not isinstance(argument, dict):
        found = type_name(argument)
        message = f"the $unionWith stage specification must be an object or string, but found {found}"
        raise CommandError(ErrorCode.FAILED_TO_PARSE, message)
    options: dict[str, Any] = dict(argument) if isinstance(argument, dict) else {"coll": argument}
    _UNION.check(options, "$unionWith")
    stages = options.get("pipeline", [])
    _check_inner("$unionWith", stages, named="coll" in options)
    own = None
    if stages and isinstance(stages[0], dict) and DOCUMENTS in stages[0]:
        own, stages = compile_documents(stages[0][DOCUMENTS], scope), stages[1:]
    pipeline = compile_pipeline(stages, _over(options.get("coll"), stages, scope))

    def run(documents: list[Document]) -> list[Document]:
        check_for_interrupt()
        # The documents of the stage before come first. None is left out for being in both, unlike in SQL's
        # UNION.
        return documents + pipeline(other_collection(options.get("coll"), scope) if own is None else own())

    return run


DOCUMENTS: Final = "$documents"


def compile_documents(argument: Any, scope: Scope) -> Callable[[], list[Document]]:
    """Return a `$documents` stage: what makes its documents, and raises `CommandError` 5858203 for others."""
    evaluate = compile_expression(argument, scope)

    def made() -> list[Document]:
        documents = evaluate(scope.frame({}))
        if not isinstance(documents, list) or not all(map(is_object, documents)):
            raise CommandError(5858203, "an array of documents is expected in $documents")
        return documents

    return made


_WITHOUT_COLLECTION: Final = {
    "$lookup": "must specify 'pipeline' with $documents as first stage when 'from' is not given",
    "$unionWith": "without explicit collection must have a pipeline with $documents as first stage",
}
_NOT_WITHIN: Final = {"$lookup": 51047, "$unionWith": 31441}
_OF_DATABASES: Final = {
    **dict.fromkeys(
        ("$currentOp", "$listSessions", "$listLocalSessions", "$querySettings"), ErrorCode.INVALID_NAMESPACE
    ),
    "$listClusterCatalog": 9621301,
}
"""Stages that read no collection, with the code of each where it stands within another one."""
_FIRST_ONLY: Final = frozenset({"$documents", "$collStats", "$indexStats", "$planCacheStats"})
_WRITING: Final = frozenset({"$out", "$merge", "$changeStream"})


def _check_inner(stage: str, pipeline: Sequence[Mapping[str, Any]], *, named: bool) -> None:
    """Refuse a pipeline within a stage that writes, or that has no documents. Raises `CommandError`.

    `named` says whether the stage names a collection, without which only `$documents` begins.
    """
    if not isinstance(pipeline, list):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "'pipeline' option must be specified as an array")
    for index, each in enumerate(pipeline):
        for name in _WRITING.intersection(each if isinstance(each, dict) else ()):
            raise CommandError(_NOT_WITHIN[stage], f"{name} is not allowed within a {stage}'s sub-pipeline")
        for name in _OF_DATABASES.keys() & (each if isinstance(each, dict) else {}):
            raise CommandError(_OF_DATABASES[name], f"{name} is not allowed within a {stage}'s sub-pipeline")
        if index and isinstance(each, dict) and not FUSIONS.isdisjoint(each):
            raise not_first(next(iter(each)))
        if index and isinstance(each, dict) and not _FIRST_ONLY.isdisjoint(each):
            raise CommandError(40602, f"{next(iter(each))} is only valid as the first stage in a pipeline")
    _check_begins(stage, pipeline, named=named)


def _check_begins(stage: str, pipeline: Any, *, named: bool) -> None:
    """Refuse documents of nowhere, and of two places at once. Raises `CommandError` 9 or 73.

    Without a collection nothing but `$documents` can give a pipeline its first documents; with one,
    `$documents` would leave it unread.
    """
    begins = isinstance(pipeline, list) and bool(pipeline) and isinstance(pipeline[0], dict)
    begins = begins and DOCUMENTS in pipeline[0]
    if not named and not begins:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, f"{stage} stage {_WITHOUT_COLLECTION[stage]}")
    if named and begins:
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE,
            f"'{DOCUMENTS}' can only be run without a collection, not in a {stage}",
        )
