"""`$rankFusion`: documents of several pipelines over one collection, by the ranks that they have in each.

A document's score is the sum, over the pipelines, of weight / (60 + rank); in a pipeline that does not have
it, it has none. Those of equal score are in the order of their `_id`. Not modelled: pipelines that search,
which need a process beside the server.

Each pipeline only selects and ranks: whatever would change a document is refused (9191103), since the same
document of two pipelines must be one, and so is a pipeline without a `$sort` or `$geoNear`, which would
have ranks without a meaning (9191100). `Ranking` runs one of them; `compile_rank_fusion` adds up. The stage
must begin its pipeline (10170100). What it yields are `Fused` documents, which keep their score beside the
fields, for `{$meta: "score"}`; `pipeline_stages.carrying` hands it on through later stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.values.paths import field_path
from fakeserver.storage.values.sorting import key_values, sort_documents
from fakeserver.storage.values.types import (
    MISSING,
    copy_value,
    exact,
    is_number,
    order,
    type_name,
)
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fakeserver.storage.port.engine import Scope
    from fakeserver.storage.stages.flow import PipelineStage

    Document: TypeAlias = dict[str, Any]
    CompilePipeline: TypeAlias = Callable[[Sequence[Mapping[str, Any]], Scope], PipelineStage]

# The usual constant of reciprocal rank fusion: it keeps a first place in one pipeline from outweighing good
# places in all others. A server has it fixed.
RANK_CONSTANT: Final = 60
_FIELDS: Final = Fields.of(
    Field("input", "object", required=True, of=Fields.of(Field("pipelines", "object", required=True))),
    Field("combination", "object", of=Fields.of(Field("weights", "object", required=True))),
    Field("scoreDetails", "strictBool"),
)
# The stages whose results are documents of their input, and those of them that give an order.
_SELECTING: Final = frozenset({"$match", "$sort", "$limit", "$skip", "$sample", "$geoNear"})
_RANKING: Final = frozenset({"$sort", "$geoNear"})
# `$scoreFusion` is not modelled, but its place is checked like that of `$rankFusion`.
FUSIONS: Final = frozenset({"$rankFusion", "$scoreFusion"})
_DESCRIPTION: Final = (
    "value output by reciprocal rank fusion algorithm, computed as sum of (weight * (1 / (60 + rank))) across"
    " input pipelines from which this document is output, from:"
)


class Fused(dict[str, Any]):
    """A document with its score, and what that is made of, for `$meta` in the stages that follow.

    The score is no field: it must not show in a reply unless a stage asks for it, nor change what `$group`
    or `$match` see.
    """

    __slots__ = ("details", "score")

    def __init__(self, document: Mapping[str, Any], score: float, details: list[Document]) -> None:
        super().__init__(document)
        self.score = score
        self.details = details


def score_of(document: Any) -> Any:
    """Return the score that a document carries, `MISSING` for none."""
    return document.score if isinstance(document, Fused) else MISSING


def details_of(document: Any) -> Any:
    """Return what the score of a document is made of, `MISSING` for one without."""
    if not isinstance(document, Fused):
        return MISSING
    return {"value": document.score, "description": _DESCRIPTION, "details": copy_value(document.details)}


class Ranking:
    """One of the pipelines: it selects documents, and puts them in an order."""

    def __init__(
        self, name: str, stages: Any, weight: float, scope: Scope, compile_pipeline: CompilePipeline
    ) -> None:
        _check_ranked(name, stages)
        self.name = name
        self.weight = weight
        self._scope = scope
        self._run = compile_pipeline(stages, scope)
        # The last `$sort` decides, as each sorts anew.
        self._sort = next((stage["$sort"] for stage in reversed(stages) if "$sort" in stage), None)

    def ranks(self, documents: list[Document]) -> Iterator[tuple[Document, int]]:
        """Yield what the pipeline selects, with its ranks: equals share one."""
        selected = self._run(list(documents))
        fold = self._scope.fold
        if self._sort is not None:
            selected = sort_documents(selected, self._sort, fold)
        rank, last = 0, None
        for place, document in enumerate(interruptible(selected), start=1):
            # Without a `$sort` (a `$geoNear` then ranks) no two documents are equal. With one, equals have
            # the rank of the first of them, and the next one has its place for a rank: 1, 1, 3.
            keys = None if self._sort is None else key_values(document, self._sort, fold)
            key = None if keys is None else [order(each, fold) for each in keys]
            if key is None or key != last:
                rank = place
            last = key
            yield document, rank


def compile_rank_fusion(argument: Any, scope: Scope, compile_pipeline: CompilePipeline) -> PipelineStage:
    """Return the stage. Raises `CommandError` for a malformed one."""
    rankings = _rankings(argument, scope, compile_pipeline)

    def run(documents: list[Document]) -> list[Document]:
        found: dict[Any, Document] = {}
        ranks: dict[Any, dict[str, int]] = {}
        for ranking in rankings:
            for document, rank in ranking.ranks(documents):
                # A document is known by its `_id`; of one that several pipelines have, the copy of the
                # first of them by name is shown.
                key = order(document.get("_id"), scope.fold)
                found.setdefault(key, document)
                ranks.setdefault(key, {})[ranking.name] = rank
        fused = [_fused(document, rankings, ranks[key]) for key, document in interruptible(found.items())]
        fused.sort(key=lambda document: (-document.score, order(document.get("_id"))))
        return list(fused)

    return run


def _fused(document: Document, rankings: list[Ranking], ranks: Mapping[str, int]) -> Fused:
    score, details = 0.0, []
    for ranking in rankings:
        rank = ranks.get(ranking.name)
        # Each pipeline has its row in the details. In one that lacks the document the rank is the text
        # "NA", and it adds nothing to the score.
        told: Document = {"inputPipelineName": ranking.name, "rank": "NA"}
        if rank is not None:
            score += ranking.weight * (1 / (RANK_CONSTANT + rank))
            told |= {"rank": rank, "weight": ranking.weight, "details": []}
        details.append(told)
    return Fused(document, score, details)


def _rankings(argument: Any, scope: Scope, compile_pipeline: CompilePipeline) -> list[Ranking]:
    if not isinstance(argument, dict):
        found = type_name(argument)
        message = f"$rankFusion must take a nested object but found: {found}"
        raise CommandError(ErrorCode.FAILED_TO_PARSE, message)
    options = copy_value(argument)
    _FIELDS.check(options, "$rankFusion")
    pipelines: dict[str, Any] = options["input"]["pipelines"]
    for name, stages in pipelines.items():
        if not isinstance(stages, list) or not all(isinstance(stage, dict) for stage in stages):
            found = "an array of objects"
            raise CommandError(
                ErrorCode.TYPE_MISMATCH, f"$rankFusion input pipeline '{name}' must be {found}"
            )
    if not pipelines:
        raise CommandError(ErrorCode.BAD_VALUE, "$rankFusion input pipelines must not be empty")
    for name in pipelines:
        if not name:
            raise CommandError(15998, "FieldPath field names may not be empty strings.")
        if "." in name:
            raise CommandError(16412, "FieldPath field names may not contain '.'.")
        field_path(name)
    weights = _weights(options.get("combination", {"weights": {}})["weights"], pipelines)
    return [
        Ranking(name, pipelines[name], weights.get(name, 1.0), scope, compile_pipeline)
        # Sorted, so that details come in an order that does not depend on the command's.
        for name in sorted(pipelines)
    ]


def _weights(weights: Mapping[str, Any], pipelines: Mapping[str, Any]) -> dict[str, float]:
    """Return the weights that are stated. Raises `CommandError`."""
    # Counted before names are looked at: of one weight too many a server tells the number, of a wrong name
    # the name.
    if len(weights) > len(pipelines):
        raise CommandError(9460301, "$rankFusion has more weights than input pipelines")
    found = {}
    for name, weight in weights.items():
        if name not in pipelines:
            raise CommandError(9967500, f"$rankFusion has a weight for '{name}', which is no input pipeline")
        if not is_number(weight):
            raise CommandError(13118, f"weight of '{name}' must be a number, but found {type_name(weight)}")
        found[name] = float(exact(weight))
        if not found[name] >= 0:  # what is no number is not
            raise CommandError(9460300, f"weight of '{name}' must be non-negative, but is {weight}")
    return found


def _check_ranked(name: str, stages: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a pipeline that changes documents, or does not rank them. Raises `CommandError`."""
    if not stages:
        raise CommandError(9834300, f"$rankFusion input pipeline '{name}' must not be empty")
    if not FUSIONS.isdisjoint(stages[0]):
        raise CommandError(10473002, f"$rankFusion input pipeline '{name}' has a nested $rankFusion")
    for stage in stages:
        if not FUSIONS.isdisjoint(stage):
            raise not_first(next(iter(stage)))
        changes = len(stage) == 1 and not _SELECTING.issuperset(stage) and next(iter(stage)).startswith("$")
        near = stage.get("$geoNear")
        if changes or (isinstance(near, dict) and near.keys() & {"distanceField", "includeLocs"}):
            message = f"$rankFusion input pipeline '{name}' must only select and rank documents"
            raise CommandError(9191103, message)
    if not any(not _RANKING.isdisjoint(stage) for stage in stages):
        raise CommandError(9191100, f"$rankFusion input pipeline '{name}' must rank documents, as $sort does")


def not_first(name: str) -> CommandError:
    """Return the error for a fusion that does not begin its pipeline."""
    return CommandError(10170100, f"{name} is only valid as the first stage in a pipeline")
