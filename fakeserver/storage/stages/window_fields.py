"""`$setWindowFields` and `$fill`: fields computed for each document from those around it.

A run has four steps: sort all documents, part them by key, compute the values of each output field over a
partition, and write them into copies. Functions see the documents as they came in, never what another
output field of the stage computed, so that the order of `output` shows in the order of new fields and in
nothing else. The results come partition by partition, in the order of the keys (a server sorts by both to
run the stage).

`window_functions` compiles the functions, `window_bounds` their windows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.functions import nullish
from fakeserver.storage.stages.flow import Flowing, run_stages
from fakeserver.storage.stages.projecting import set_computed
from fakeserver.storage.stages.window_bounds import EmptySort, Partition
from fakeserver.storage.stages.window_functions import compile_function
from fakeserver.storage.values.paths import gather, remove, split
from fakeserver.storage.values.sorting import check_sort, sort_documents
from fakeserver.storage.values.types import MISSING, copy_value, is_object, order, type_name
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fakeserver.storage.port.engine import Evaluate, Frame, Scope
    from fakeserver.storage.stages.flow import PipelineStage

    Document: TypeAlias = dict[str, Any]

_FIELDS: Final = Fields.of(
    Field("partitionBy"), Field("sortBy", "object"), Field("output", "object", required=True)
)
_FILL_FIELDS: Final = Fields.of(
    Field("partitionBy", "string|object"),
    Field("partitionByFields", "array", of="string"),
    Field("sortBy", "object"),
    Field("output", "object", required=True),
)
_FILL_OUTPUT: Final = Fields.of(Field("value"), Field("method", "string"))
_METHODS: Final = {"locf": "$locf", "linear": "$linearFill"}


def compile_set_window_fields(argument: Any, scope: Scope) -> PipelineStage:
    """Return a `$setWindowFields` stage. Raises `CommandError` for a malformed one."""
    if not is_object(argument):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            "the $setWindowFields stage specification must be an object, found " + type_name(argument),
        )
    _FIELDS.check(dict(argument), "$setWindowFields")
    sort = argument.get("sortBy") or {}
    # An empty `sortBy` is kept apart from none: with it, windows of documents are allowed.
    keys = EmptySort() if argument.get("sortBy") == {} else check_sort(sort)
    key_of = compile_expression(argument["partitionBy"], scope) if "partitionBy" in argument else None
    # Neither may one output be a part of another: it would depend on their order which of both is left.
    paths = sorted(map(split, argument["output"]))
    for first, following in pairwise(paths):
        # A path that begins another stands right before one that it begins.
        if following[: len(first)] == first:
            raise CommandError(
                6307900, "$setWindowFields 'output' specification contains two conflicting paths"
            )
    output = [
        (split(name), compile_function(name, spec, keys, scope)) for name, spec in argument["output"].items()
    ]

    def run(documents: list[Document]) -> list[Document]:
        return [changed for frames in parted(documents) for changed in computed(frames)]

    def parted(documents: list[Document]) -> Iterable[list[Frame]]:
        return _partitions(sort_documents(documents, sort, scope.fold), key_of, scope)

    def computed(frames: list[Frame]) -> list[Document]:
        partition = Partition(frames, keys)
        changed = [copy_value(frame["ROOT"]) for frame in interruptible(frames)]
        for parts, compute in output:
            for document, value in interruptible(zip(changed, compute(partition), strict=True)):
                # An output without a value removes a field of its name that was there before.
                if value is MISSING:
                    remove(document, parts)
                set_computed(document, parts, value)
        return changed

    return run


def _partitions(documents: list[Document], key_of: Evaluate | None, scope: Scope) -> Iterable[list[Frame]]:
    """Return documents by partition, the partitions in the order of their keys.

    A partition's documents keep the order in which they were sorted. What is missing makes one partition
    with null, and an array is refused (14): unlike in `$group`, it is no key.
    """
    frames = [scope.frame(document) for document in documents]
    if key_of is None:
        return [frames] if frames else []
    found: dict[Any, list[Frame]] = {}
    for frame in interruptible(frames):
        key = key_of(frame)
        if isinstance(key, list):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                "An expression used to partition cannot evaluate to value of type array",
            )
        found.setdefault(order(None if key is MISSING else key, scope.fold), []).append(frame)
    return [found[key] for key in sorted(found)]


def compile_fill(argument: Any, scope: Scope) -> PipelineStage:
    """Return a `$fill` stage, which is `$setWindowFields` and `$addFields` to a server, too.

    Fields that a method fills (`locf` the last value before, `linear` a line between neighbours) are
    computed first, in the order of `sortBy`; fields that a value fills are set afterwards, where they are
    null or missing, so that their expressions see what methods filled. Raises `CommandError` for a
    malformed stage.
    """
    if not is_object(argument):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            "The $fill stage specification must be an object, found " + type_name(argument),
        )
    _FILL_FIELDS.check(dict(argument), "$fill")
    methods, values = _outputs(argument["output"])
    if "partitionBy" in argument and "partitionByFields" in argument:
        raise CommandError(
            6050204, "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'"
        )
    stages: list[PipelineStage] = []
    if methods:
        parts = {name: argument[name] for name in ("partitionBy", "sortBy") if name in argument}
        if "partitionByFields" in argument:
            # The short form: partition by these fields together, as by a document of them.
            parts["partitionBy"] = {name: f"${name}" for name in argument["partitionByFields"]}
        stages.append(compile_set_window_fields({**parts, "output": methods}, scope))
    if values:
        fields = [(split(name), compile_expression(value, scope)) for name, value in values.items()]
        stages.append(Flowing.each(lambda document: _with_values(document, fields, scope)))
    return lambda documents: run_stages(stages, documents)


def _with_values(
    document: Document, fields: list[tuple[tuple[str, ...], Evaluate]], scope: Scope
) -> Document:
    """Return a document with its empty fields filled.

    Every expression sees the document as it came in, not what another field was filled with.
    """
    frame, changed = scope.frame(document), copy_value(document)
    for parts, evaluate in fields:
        if nullish(gather(document, parts)):
            set_computed(changed, parts, evaluate(frame))
    return dict(changed)


def _outputs(output: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that a method fills, as window functions, and those that a value fills."""
    if not output:
        raise CommandError(
            6050203, "The output field in '$fill' must contain an object with at least one element"
        )
    methods: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, spec in output.items():
        if not is_object(spec):
            raise CommandError(
                6050200, "Each fill output specification must be an object with exactly one field"
            )
        _FILL_OUTPUT.check(dict(spec), "$fill")
        if "method" not in spec:
            if "value" in spec:
                values[name] = spec["value"]
            continue
        if "value" in spec:
            raise CommandError(
                6050201,
                "Each fill output specification must have exactly one of 'method' or 'value' fields, not"
                " both",
            )
        if spec["method"] not in _METHODS:
            raise CommandError(6050202, "Method must be either locf or linear")
        methods[name] = {_METHODS[spec["method"]]: f"${name}"}
    return methods, values
