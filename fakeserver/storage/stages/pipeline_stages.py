"""Aggregation pipelines, compiled: each stage a function from documents to documents.

Stages that read what is not a collection (`$collStats`, `$currentOp` …) or write (`$out`, `$merge`) belong
to the aggregate command.

To add a stage, write its compiler and enter it in `_STAGES`; a newer one also needs the wire version of its
first release in `fakeserver.idl.features`, by which older releases refuse it (40324). A pipeline is
compiled as a whole before a document is read, as a server parses it: a malformed last stage fails although
the first one would find nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import Int64

from fakeserver.errors import CommandError, not_implemented
from fakeserver.idl.features import STAGES
from fakeserver.profile import WIRE_82
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.functions import optimizing
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.stages.bucketing import (
    compile_bucket,
    compile_bucket_auto,
    compile_group,
    pushed_down,
)
from fakeserver.storage.stages.flow import Flowing, run_stages
from fakeserver.storage.stages.lookup import compile_graph_lookup, compile_lookup, compile_union_with
from fakeserver.storage.stages.projecting import (
    check_project,
    compile_projection,
    compile_redact,
    set_computed,
)
from fakeserver.storage.stages.rank_fusion import (
    FUSIONS,
    Fused,
    compile_rank_fusion,
    details_of,
    not_first,
    score_of,
)
from fakeserver.storage.values.limits import MAX_OPERATOR_BYTES, check_sorted, checked_document, weight
from fakeserver.storage.values.paths import field_name, nested, prefixes, remove, stage_path
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.sorting import Sorted, check_sort, key_values, sort_documents
from fakeserver.storage.values.types import (
    MISSING,
    copy_value,
    is_number,
    is_object,
    not_an_integer,
    safe_int,
    type_name,
    whole,
)
from fakeserver.waiting.first_use import at_first_use
from fakeserver.waiting.interrupts import check_for_interrupt, interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fakeserver.storage.port.engine import Scope
    from fakeserver.storage.stages.flow import PipelineStage

    Document: TypeAlias = dict[str, Any]


def compile_unwind(argument: Any, _scope: Scope) -> Flowing:
    """Return an `$unwind` stage. Raises `CommandError` for a malformed one."""
    options = _unwind_options(argument)
    parts, index_name = stage_path(options["path"][1:]), options.get("includeArrayIndex")
    keep = options.get("preserveNullAndEmptyArrays", False)
    index_parts = None if index_name is None else stage_path(index_name)

    def unwound(document: Document) -> Iterator[Document]:
        value = nested(document, parts)
        if isinstance(value, list) and value:
            # Null for the array, which is not to be copied for each element.
            rest = document if len(parts) > 1 else {**document, parts[0]: None}
            for index, item in enumerate(interruptible(value)):
                yield _with(rest, item, index)
        elif not isinstance(value, list) and value is not MISSING and value is not None:
            yield _with(document, value, None)
        elif keep:
            yield _with(document, MISSING if value == [] else value, None)

    def _with(document: Document, item: Any, index: int | None) -> Document:
        changed = copy_value(document)
        if item is not MISSING:
            set_computed(changed, parts, item)
        elif nested(document, parts) is not MISSING:
            remove(changed, parts)
        if index_parts is not None:
            set_computed(changed, index_parts, None if index is None else Int64(index))
        return dict(changed)

    return Flowing(lambda documents: (each for document in documents for each in unwound(document)))


def _unwind_options(argument: Any) -> dict[str, Any]:
    if type(argument) is not str and not isinstance(argument, dict):
        found = type_name(argument)
        message = f"expected either a string or an object as specification for $unwind stage, got {found}"
        raise CommandError(15981, message)
    options = argument if isinstance(argument, dict) else {"path": argument}
    for name, value in options.items():
        _check_unwind(name, value)
    path = options.get("path", "")
    if not path:
        raise CommandError(28812, "no path specified to $unwind stage")
    if not path.startswith("$"):
        raise CommandError(28818, f"path option to $unwind stage should be prefixed with a '$': {path}")
    if "\0" in path:
        raise CommandError(16419, "field path must not contain embedded null characters")
    return options


def _check_unwind(name: str, value: Any) -> None:
    """Refuse an option of `$unwind` that is unknown or malformed. Raises `CommandError`."""
    if name == "path":
        if type(value) is not str:
            found = type_name(value)
            raise CommandError(28808, f"expected a string as the path for $unwind stage, got {found}")
    elif name == "preserveNullAndEmptyArrays":
        if not isinstance(value, bool):
            message = f"expected a boolean for the {name} option to $unwind stage, got {type_name(value)}"
            raise CommandError(28809, message)
    elif name != "includeArrayIndex":
        raise CommandError(28811, f"unrecognized option to $unwind stage: {name}")
    elif type(value) is not str or not value:
        message = (
            f"expected a non-empty string for the {name} option to $unwind stage, got {type_name(value)}"
        )
        raise CommandError(28810, message)
    elif value.startswith("$"):
        raise CommandError(
            28822, f"{name} option to $unwind stage should not be prefixed with a '$': {value}"
        )


KEEPING_DOCUMENTS: Final = frozenset({"$match", "$limit", "$skip", "$sample", "$sort"})
"""Stages whose results are documents of their input."""

ONE_BY_ONE: Final = frozenset({
    "$project", "$redact", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$unwind",
    "$lookup", "$graphLookup",
})  # fmt: skip
"""Stages that make their results of one document at a time."""


def names_sort_key(value: Any) -> bool:
    """Return whether stages say `$meta: "sortKey"` anywhere."""
    if isinstance(value, dict):
        return value.get("$meta") == "sortKey" or any(map(names_sort_key, value.values()))
    return isinstance(value, list) and any(map(names_sort_key, value))


def sort_key_of(document: Any) -> Any:
    """Return the key that a document carries, `MISSING` for none."""
    return list(document.key) if isinstance(document, Sorted) else MISSING


def keyed_by(run: PipelineStage, sort: Mapping[str, Any], scope: Scope) -> PipelineStage:
    """Return a `$sort` whose documents carry their keys."""

    def keyed(documents: list[Document]) -> list[Document]:
        return [
            Sorted(document, key_values(document, sort, scope.fold))
            for document in interruptible(run(documents))
        ]

    return keyed


INDEX_KEY: Final = "indexKey"
"""The metadata that a document's `_id` leads to."""
_KEEPING_IDS: Final = KEEPING_DOCUMENTS | ONE_BY_ONE
_CARRIED: Final = frozenset({"sortKey", "score", "scoreDetails"})
"""The metadata that documents carry themselves."""
_UNFILLED: Final = dict.fromkeys(
    ("searchScore", "searchScoreDetails", "vectorSearchScore"), lambda _document: MISSING
)
"""Metadata that are known where scores are, though only a search has them."""


def carrying(run: PipelineStage) -> PipelineStage:
    """Return a stage that hands the key or the score of each document on to what it makes of it.

    Stages build new documents and know nothing of metadata. So the stage is run once for each document, and
    whatever comes of it, one or many as of `$unwind`, is given the key or the score of that one.
    """

    def carried(documents: list[Document]) -> list[Document]:
        return [_handed(document, made) for document in interruptible(documents) for made in run([document])]

    return carried


def _handed(document: Document, made: Document) -> Document:
    if isinstance(document, Sorted):
        return Sorted(made, document.key)
    return Fused(made, document.score, document.details) if isinstance(document, Fused) else made


_UNRECOGNIZED: Final = 40324
_DOTTED_WITHIN: Final = 40183
_CONFLICT: Final = 40176
_NOT_ONE_FIELD: Final = 40323
_NOT_AN_OBJECT: Final = 40228
_BAD_LIMIT: Final = 5107201
_BAD_SKIP: Final = 5107200
_FACET_TOO_LARGE: Final = 4031700
_TOO_LONG: Final = 7749501
_MOST_STAGES: Final = 1000
"""`internalPipelineLengthLimit`, as servers have it."""


def compile_pipeline(pipeline: Sequence[Mapping[str, Any]], scope: Scope) -> PipelineStage:
    """Return a pipeline as one function. Raises `CommandError` for one that a server refuses."""
    if not isinstance(pipeline, list | tuple):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "'pipeline' option must be specified as an array")
    if len(pipeline) > _MOST_STAGES:
        raise CommandError(_TOO_LONG, f"Pipeline length must be no longer than {_MOST_STAGES} stages.")
    stages = list(_compile_stages(pipeline, scope))

    return lambda documents: run_stages(stages, documents)


def compile_optimized(pipeline: Sequence[Mapping[str, Any]], scope: Scope) -> PipelineStage:
    """Return a pipeline as one function. Raises `CommandError` for a constant that fails, too.

    A server computes constants once, before it reads a document, so `{$divide: [1, 0]}` fails on an empty
    collection, too. It does so after parsing: the first malformed stage is told before any failing
    constant.
    """
    run = compile_pipeline(pipeline, scope)
    if scope.failures:
        raise optimizing(scope.failures, "pipeline")
    return run


def _compile_stages(pipeline: Sequence[Mapping[str, Any]], scope: Scope) -> Iterator[PipelineStage]:
    """Yield the stages; from a `$sort` to the last `$meta: "sortKey"`, documents carry their sort key."""
    # Where the first stage is that no query engine runs below a pipeline, and the last one.
    below = next((at for at, each in enumerate(pipeline) if not _among(each, _PUSHED_DOWN)), len(pipeline))
    above = max((at for at, each in enumerate(pipeline) if not _among(each, _GROUPED_BELOW)), default=-1)
    for index, stage in enumerate(interruptible(pipeline)):
        name, run = stage_name(stage), _compile_stage(stage, scope)
        # An empty `$match` before it is removed by a server's optimizer, and so does no harm.
        if name == "$geoNear" and any(each != {"$match": {}} for each in pipeline[:index]):
            raise CommandError(40603, "$geoNear was not the first stage in the pipeline after optimization")
        if name in _GROUPS and index < below:
            run = pushed_down(run, handed_on=index < above or name != "$group")
        if name == "$sort" and names_sort_key(pipeline[index + 1 :]):
            yield keyed_by(run, stage[name], scope)
            scope = scope._replace(meta={**scope.meta, "sortKey": sort_key_of})
        elif name in FUSIONS:
            yield run
            details = {"scoreDetails": details_of} if stage[name].get("scoreDetails") else {}
            scope = scope._replace(meta={**scope.meta, "score": score_of, **_UNFILLED, **details})
        elif _CARRIED.isdisjoint(scope.meta) or name in KEEPING_DOCUMENTS:
            yield run
        elif name in ONE_BY_ONE:
            yield carrying(run)
        else:
            yield run
            scope = scope._replace(meta={key: scope.meta[key] for key in scope.meta if key not in _CARRIED})
        if INDEX_KEY in scope.meta and name not in _KEEPING_IDS:
            scope = scope._replace(meta={key: scope.meta[key] for key in scope.meta if key != INDEX_KEY})


_GROUPS: Final = frozenset({"$group", "$bucket", "$sortByCount"})
_GROUPED_BELOW: Final = frozenset({"$group", "$lookup"})
_PUSHED_DOWN: Final = _GROUPS | {"$lookup", "$match", "$sort", "$limit", "$skip"}
"""Stages that a server's query engine runs, up to the first other one."""


def _among(stage: Any, names: frozenset[str]) -> bool:
    return isinstance(stage, dict) and names.issuperset(stage)


def stage_name(stage: Any) -> str:
    """Return a stage's name. Raises `CommandError` for what is no stage."""
    if not isinstance(stage, dict):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "Each element of the 'pipeline' array must be an object")
    if len(stage) != 1:
        raise CommandError(
            _NOT_ONE_FIELD, "A pipeline stage specification object must contain exactly one field."
        )
    return str(next(iter(stage)))


def adds_fields(stage: Mapping[str, Any]) -> bool:
    """Return whether a stage is a `$fill` by values alone, which is `$addFields` to a server."""
    argument = stage.get("$fill")
    output = argument.get("output") if isinstance(argument, dict) and "sortBy" not in argument else None
    filled = output.values() if isinstance(output, dict) else ()
    return bool(filled) and all(isinstance(each, dict) and "value" in each for each in filled)


def check_stage_name(stage: Any) -> None:
    """Refuse what no server knows for a stage. Raises `CommandError` 14, 40323 or 40324."""
    name = stage_name(stage)
    if name not in _STAGES and name not in UNSUPPORTED_STAGES and name not in STAGES_OF_COMMANDS:
        raise unrecognized_stage(name)


STAGES_OF_COMMANDS: Final = frozenset({
    "$changeStream", "$changeStreamSplitLargeEvent", "$collStats", "$currentOp", "$documents", "$indexStats",
    "$listClusterCatalog", "$listLocalSessions", "$listSampledQueries", "$listSearchIndexes", "$listSessions",
    "$merge", "$out", "$planCacheStats", "$querySettings", "$queryStats", "$scoreFusion",
    "$shardedDataDistribution",
})  # fmt: skip
"""Stages that read what is not a collection, or write: they stand in an aggregate command's pipeline only."""


def _compile_stage(stage: Mapping[str, Any], scope: Scope) -> PipelineStage:
    name = stage_name(stage)
    if not scope.knows(name, STAGES):
        raise unrecognized_stage(name)
    compiler = _STAGES.get(name)
    if compiler is not None:
        return compiler(stage[name], scope)
    if name in UNSUPPORTED_STAGES:
        raise not_implemented(f"the stage {name}")
    if name in STAGES_OF_COMMANDS:
        raise not_implemented(f"the stage {name} within another stage")
    raise unrecognized_stage(name)


UNSUPPORTED_STAGES: Final = frozenset({
    "$backupCursor", "$backupCursorExtend", "$listCachedAndActiveUsers", "$listCatalog", "$operationMetrics",
    "$score", "$scoreFusion", "$search", "$searchBeta", "$searchMeta", "$vectorSearch",
})  # fmt: skip
"""Stages that a server has and we have not; see docs/LIMITS.md."""


def unrecognized_stage(name: str) -> CommandError:
    """Return the error for a stage that no server knows."""
    return CommandError(_UNRECOGNIZED, f"Unrecognized pipeline stage name: '{name}'")


def _match(argument: Any, scope: Scope) -> PipelineStage:
    if not isinstance(argument, dict):
        raise CommandError(15959, "the match filter must be an expression in an object")
    predicate = compile_filter(argument, scope)
    if not argument:
        return Flowing(lambda documents: documents, looks=False)
    return Flowing(lambda documents: (document for document in documents if predicate(document)))


@contextmanager
def _named_in_errors(stage: str) -> Iterator[None]:
    """Have an error say which stage's specification it is about."""
    try:
        yield
    except CommandError as error:
        raise CommandError(error.code, f"Invalid {stage} :: caused by :: {error.message}") from None


def _project(argument: Any, scope: Scope) -> PipelineStage:
    check_project(argument)
    with _named_in_errors("$project"):
        project = compile_projection(argument, scope)
    return Flowing.each(lambda document: checked_document(project(document)))


def _add_fields(argument: Any, scope: Scope) -> PipelineStage:
    if not isinstance(argument, dict):
        raise CommandError(
            40272, f"$addFields specification stage must be an object, got {type_name(argument)}"
        )
    with _named_in_errors("$addFields"):
        fields = [(stage_path(path), compile_expression(value, scope)) for path, value in _leaves(argument)]
        try:
            _check_collisions([".".join(parts) for parts, _evaluate in fields])
        except CommandError as error:
            raise CommandError(_CONFLICT, f"conflicting paths. {error.message}") from None

    def with_fields(document: Document) -> Document:
        frame, changed = scope.frame(document), dict(document)
        for parts, evaluate in fields:
            set_computed(changed, parts, evaluate(frame), removing=True)
        return checked_document(changed)

    return Flowing.each(with_fields)


def _leaves(spec: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in spec.items():
        if is_object(value) and len(value) > 1 and next(iter(value)).startswith("$"):
            raise CommandError(40181, "an expression specification must contain exactly one field")
        if prefix and "." in name:
            raise CommandError(_DOTTED_WITHIN, f"cannot use dotted field name '{name}' in a sub object")
        if is_object(value) and value and not next(iter(value)).startswith("$"):
            found.extend(_leaves(value, f"{prefix}{name}."))
        else:
            found.append((f"{prefix}{name}", value))
    return found


def _unset(argument: Any, _scope: Scope) -> PipelineStage:
    if type(argument) is not str and not isinstance(argument, list):
        raise CommandError(31002, "$unset specification must be a string or an array")
    paths = argument if isinstance(argument, list) else [argument]
    if not paths:
        raise CommandError(31119, "$unset specification must be a string or an array with at least one field")
    for path in paths:
        if type(path) is not str:
            raise CommandError(
                31120, "$unset specification must be a string or an array containing only string values"
            )
    if any("\0" in path for path in paths):
        raise CommandError(9527900, "$unset paths may not contain null bytes")
    removed = [stage_path(path) for path in paths]
    _check_collisions(paths)

    def without(document: Document) -> Document:
        changed: Document = copy_value(document)
        for parts in removed:
            remove(changed, parts)
        return changed

    return Flowing.each(without)


def _check_collisions(paths: Sequence[str]) -> None:
    """Refuse a path that is another one, or leads there. Raises `CommandError` 31250 or 31249."""
    seen: set[str] = set()
    above: set[str] = set()
    for path in paths:
        *leading, _path = prefixes(path)
        if path in seen or path in above:
            raise CommandError(31250, f"Path collision at {path}")
        if not seen.isdisjoint(leading):
            raise CommandError(31249, f"Path collision at {path}")
        seen.add(path)
        above.update(leading)


def _sort(argument: Any, scope: Scope) -> PipelineStage:
    if not isinstance(argument, dict):
        raise CommandError(15973, "the $sort key specification must be an object")
    if not argument:
        raise CommandError(15976, "$sort stage must have at least one sort key")
    check_sort(argument)

    def run(documents: list[Document]) -> list[Document]:
        if not scope.spills:
            check_sorted(documents)
        return sort_documents(documents, argument, scope.fold, scope.meta)

    return run


def _amount(name: str, code: int, argument: Any) -> int:
    count, reason = whole(argument), not_an_integer(argument)
    if reason is None and count is not None and count >= 0:
        return count
    reason = reason or "Expected a non-negative number in"
    raise CommandError(code, f"invalid argument to {name} stage: {reason}: {name}: {show(argument)}")


def _limit(argument: Any, _scope: Scope) -> PipelineStage:
    count = _amount("$limit", _BAD_LIMIT, argument)
    if count == 0:
        raise CommandError(15958, "the limit must be positive")
    return Flowing(lambda documents: islice(documents, count), looks=False)


def _skip(argument: Any, _scope: Scope) -> PipelineStage:
    count = _amount("$skip", _BAD_SKIP, argument)
    return Flowing(lambda documents: islice(documents, count, None))


def _count(argument: Any, _scope: Scope) -> PipelineStage:
    if type(argument) is not str:
        raise CommandError(40156, "the count field must be a non-empty string")
    if not argument:
        raise CommandError(40157, "the count field must be a non-empty string")
    if argument.startswith("$"):
        raise CommandError(40158, "the count field cannot be a $-prefixed path")
    if "\0" in argument:
        raise CommandError(40159, "the count field cannot contain a null byte")
    if argument == "_id":
        raise CommandError(9039800, "the count field cannot be '_id'")
    if "." in argument:
        raise CommandError(40160, "the count field cannot contain '.'")

    def counted(documents: Iterable[Document]) -> Iterator[Document]:
        count = sum(1 for _document in documents)
        if count:
            yield {argument: count}

    return Flowing(counted)


def _replace_root(argument: Any, scope: Scope) -> PipelineStage:
    if not isinstance(argument, dict):
        raise CommandError(
            40229, f"expected an object as specification for $replaceRoot stage, got {type_name(argument)}"
        )
    for name in argument:
        if name != "newRoot":
            raise CommandError(
                ErrorCode.IDL_UNKNOWN_FIELD, f"BSON field '$replaceRoot.{name}' is an unknown field."
            )
    if "newRoot" not in argument:
        raise CommandError(
            ErrorCode.IDL_FAILED_TO_PARSE,
            "BSON field '$replaceRoot.newRoot' is missing but a required field",
        )
    return _replace_with(argument["newRoot"], scope)


def _replace_with(argument: Any, scope: Scope) -> PipelineStage:
    expression = compile_expression(argument, scope)

    def replaced(document: Document) -> Document:
        value = expression(scope.frame(document))
        if not is_object(value):
            shown = "MISSING" if value is MISSING else show(value)
            raise CommandError(
                _NOT_AN_OBJECT,
                "'newRoot' expression  must evaluate to an "
                f"object, but resulting value was: : {shown}. Type of resulting value: '{type_name(value)}'. "
                f"Input document: {show(document)}",
            )
        return checked_document(dict(value))

    return Flowing.each(replaced)


def _facet(argument: Any, scope: Scope) -> PipelineStage:
    if not isinstance(argument, dict) or not argument:
        raise CommandError(40169, "the $facet specification must be a non-empty object")
    check_facets(argument)
    branches = {name: compile_pipeline(pipeline, scope) for name, pipeline in argument.items()}

    def run(documents: list[Document]) -> list[Document]:
        size = 0
        made: Document = {}
        for name, branch in branches.items():
            made[name] = branch(list(documents))
            for document in interruptible(made[name]):
                size += weight(document, MAX_OPERATOR_BYTES)
                if size > MAX_OPERATOR_BYTES:
                    message = f"document constructed by $facet is {size} bytes, which exceeds the limit of"
                    raise CommandError(_FACET_TOO_LARGE, f"{message} {MAX_OPERATOR_BYTES} bytes")
        return [made]

    return run


def check_facets(branches: Mapping[str, Any], *, on_database: bool = False) -> None:
    """Refuse what is no pipeline, and stages that no facet may hold. Raises `CommandError`.

    Where the pipeline is `on_database`, no stage is refused for its namespace.
    """
    for name, pipeline in branches.items():
        field_name(name)
        if not isinstance(pipeline, list):
            raise CommandError(
                40170, f"arguments to $facet must be arrays, {name} is type {type_name(pipeline)}"
            )
        for index, stage in enumerate(pipeline):
            if not isinstance(stage, dict):
                raise CommandError(
                    40171, f"elements of arrays in $facet spec must be non-empty objects, {name}"
                )
            _check_within_facet(stage)
            if index and not FUSIONS.isdisjoint(stage):
                raise not_first(next(iter(stage)))
            for held in _NOT_IN_FACETS.keys() & stage:
                code = 40600 if on_database else _NOT_IN_FACETS[held]
                raise CommandError(code, f"{held} is not allowed to be used within a $facet stage")


def _check_within_facet(stage: Mapping[str, Any]) -> None:
    """Refuse what no facet may hold in the pipelines of its stages either. Raises `CommandError` 40600."""
    for name in ("$lookup", "$unionWith"):
        inner = stage.get(name)
        pipeline = inner.get("pipeline") if isinstance(inner, dict) else None
        for each in pipeline if isinstance(pipeline, list) else ():
            for held in _NOT_BELOW_FACETS.intersection(each if isinstance(each, dict) else ()):
                raise CommandError(40600, f"{held} is not allowed to be used within a $facet stage")


_NOT_BELOW_FACETS: Final = frozenset({"$collStats", "$facet", "$geoNear", "$indexStats", "$planCacheStats"})
_NOT_IN_FACETS: Final = {
    **dict.fromkeys((
        "$changeStream", "$changeStreamSplitLargeEvent", "$collStats", "$currentOp", "$documents", "$facet",
        "$geoNear", "$indexStats", "$listCatalog", "$listSampledQueries", "$merge",
        "$out", "$planCacheStats", "$querySettings", "$queryStats", "$search", "$searchBeta", "$searchMeta",
        "$listSearchIndexes", "$shardedDataDistribution", "$vectorSearch",
    ), 40600),
    "$listSessions": ErrorCode.INVALID_NAMESPACE,
    "$listLocalSessions": ErrorCode.INVALID_NAMESPACE,
    "$listClusterCatalog": 9621301,
}  # fmt: skip
"""Stages that no facet may hold, with the code of each."""


def _sample(argument: Any, scope: Scope) -> PipelineStage:
    size = _sample_size(argument, scope)
    rng = scope.rng

    def run(documents: list[Document]) -> list[Document]:
        pool = list(documents)
        chosen: list[Document] = []
        while pool and len(chosen) < size:
            check_for_interrupt()
            index = int(rng.random() * len(pool)) if rng is not None else 0
            chosen.append(pool.pop(index))
        return chosen

    return run


def _sample_size(argument: Any, scope: Scope) -> int:
    """Return how many documents are drawn. Raises `CommandError`."""
    if not isinstance(argument, dict):
        raise CommandError(28745, "the $sample stage specification must be an object")
    for name, value in argument.items():
        if name != "size":
            raise CommandError(28748, f"unrecognized option to $sample: {name}")
        if not is_number(value):
            raise CommandError(28746, "size argument to $sample must be a number")
    if "size" not in argument:
        raise CommandError(28749, "$sample stage must specify a size")
    size = safe_int(argument["size"])
    # Until 8.0 there may be a sample of nothing.
    least = 0 if scope.release and scope.release < WIRE_82 else 1
    if size < least:
        raise CommandError(
            28747, f"size argument to $sample must {'be a positive integer' if least else 'not be negative'}"
        )
    return size


def _sort_by_count(argument: Any, scope: Scope) -> PipelineStage:
    if not isinstance(argument, str | dict):
        raise CommandError(40149, "the sortByCount field must be specified as a string or as an object")
    if not next(iter(argument), "").startswith("$"):  # the first name of an object, or the first character
        what = "defined as a $-prefixed path or an expression inside an object"
        raise CommandError(40147 + isinstance(argument, str), f"the sortByCount field must be {what}")
    group = compile_group({"_id": argument, "count": {"$sum": 1}}, scope)
    return lambda documents: sort_documents(group(documents), {"count": -1})


def _rare(module: str, name: str) -> Callable[[Any, Scope], PipelineStage]:
    """Return a stage's compiler, whose module is imported when a pipeline has the stage."""
    stages = at_first_use(f"fakeserver.storage.stages.{module}")

    def compile_stage(argument: Any, scope: Scope) -> PipelineStage:
        stage: PipelineStage = getattr(stages, name)(argument, scope)
        return stage

    return compile_stage


_STAGES: Final[dict[str, Callable[[Any, Scope], PipelineStage]]] = {
    "$match": _match,
    "$project": _project,
    "$redact": compile_redact,
    "$addFields": _add_fields,
    "$set": _add_fields,
    "$unset": _unset,
    "$group": compile_group,
    "$sort": _sort,
    "$limit": _limit,
    "$skip": _skip,
    "$count": _count,
    "$replaceRoot": _replace_root,
    "$replaceWith": _replace_with,
    "$unwind": compile_unwind,
    "$lookup": lambda argument, scope: compile_lookup(argument, scope, compile_pipeline),
    "$geoNear": _rare("geo_near", "compile_geo_near"),
    "$graphLookup": compile_graph_lookup,
    "$unionWith": lambda argument, scope: compile_union_with(argument, scope, compile_pipeline),
    "$rankFusion": lambda argument, scope: compile_rank_fusion(argument, scope, compile_pipeline),
    "$facet": _facet,
    "$sample": _sample,
    "$sortByCount": _sort_by_count,
    "$bucket": compile_bucket,
    "$bucketAuto": compile_bucket_auto,
    "$setWindowFields": _rare("window_fields", "compile_set_window_fields"),
    "$densify": _rare("densifying", "compile_densify"),
    "$fill": _rare("window_fields", "compile_fill"),
}
NAMES: Final = frozenset(_STAGES)
"""The stages that make documents of documents."""
