"""Privileges of pipelines: on their own collection, on those that they read, on those that they write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.ask import is_set
from fakeserver.access.privileges import CLUSTER, EVERYWHERE, Resource
from fakeserver.access.session_listing import SessionListing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fakeserver.access.ask import Ask, Need

_FIND: Final = ("find",)
_BYPASS: Final = "bypassDocumentValidation"
_STARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "$collStats": ("collStats",),
    "$indexStats": ("indexStats",),
    "$planCacheStats": ("planCacheRead",),
    "$listSearchIndexes": ("listSearchIndexes",),
}
"""The stages that begin a pipeline with what is not documents, and what they need on its collection."""


def may_aggregate(ask: Ask) -> bool:
    """Permit an aggregate to those who may do what each of its stages does."""
    pipeline = ask.command.get("pipeline")
    return ask.may_all(pipeline_needs(ask, ask.collection, pipeline if isinstance(pipeline, list) else []))


def pipeline_needs(ask: Ask, source: Resource, pipeline: Sequence[Any]) -> Iterator[Need]:
    """Iterate over what a pipeline over a collection, or over a database, needs. Raises `CommandError`."""
    first = next(iter(pipeline[0]), "") if pipeline and isinstance(pipeline[0], dict) else ""
    if first not in _STARTS and first not in _OPEN_STARTS:
        yield source, _FIND
    yield from _stages(ask, source, pipeline)


def _stages(ask: Ask, source: Resource, pipeline: Any) -> Iterator[Need]:
    for stage in pipeline if isinstance(pipeline, list) else ():
        for name, argument in stage.items() if isinstance(stage, dict) else ():
            if name in _STARTS:
                yield source, _STARTS[name]
            elif name in _OPEN_STARTS:
                yield from _OPEN_STARTS[name](ask, source, argument)
            elif name in _STAGES:
                yield from _STAGES[name](ask, argument)


# The stages that begin a pipeline.


def _data_distribution(_ask: Ask, _source: Resource, _argument: Any) -> Iterator[Need]:
    yield CLUSTER, ("shardedDataDistribution",)


def _change_stream(_ask: Ask, source: Resource, _argument: Any) -> Iterator[Need]:
    """Ask for all databases where the whole cluster is watched: from `admin`, without a collection."""
    whole = source.db == "admin" and not source.collection
    yield EVERYWHERE if whole else source, ("find", "changeStream")


def _current_operations(ask: Ask, _source: Resource, argument: Any) -> Iterator[Need]:
    """Ask for nothing where a client wants its own operations; a mongos asks its shards for them."""
    switches = argument if isinstance(argument, dict) else {}
    elsewhere = ask.node.is_mongos and not switches.get("localOps")
    if switches.get("allUsers") or elsewhere:
        yield CLUSTER, ("inprog",)


def _sessions(ask: Ask, _source: Resource, argument: Any) -> Iterator[Need]:
    """Ask for nothing where a client wants its own sessions."""
    if not SessionListing.parse("$listSessions", argument).is_of(ask.identity):
        yield CLUSTER, ("listSessions",)


def _nothing(_ask: Ask, _source: Resource, _argument: Any) -> Iterator[Need]:
    return iter(())


_OPEN_STARTS: Final[Mapping[str, Callable[[Ask, Resource, Any], Iterator[Need]]]] = {
    "$changeStream": _change_stream,
    "$currentOp": _current_operations,
    "$listSessions": _sessions,
    "$listLocalSessions": _sessions,
    "$documents": _nothing,
    "$shardedDataDistribution": _data_distribution,
}
"""The stages that read no documents of the collection, and need what depends on their argument."""


# The stages that read other collections, and those that write.


def _union(ask: Ask, argument: Any) -> Iterator[Need]:
    return _joined(ask, argument, "coll")


def _lookup(ask: Ask, argument: Any) -> Iterator[Need]:
    return _joined(ask, argument, "from")


def _joined(ask: Ask, argument: Any, field: str) -> Iterator[Need]:
    spec = argument if isinstance(argument, dict) else {field: argument}
    other = _namespace(ask, spec.get(field))
    if spec.get(field) is not None:
        yield other, _FIND
    yield from _stages(ask, other, spec.get("pipeline"))


def _facet(ask: Ask, argument: Any) -> Iterator[Need]:
    for inner in argument.values() if isinstance(argument, dict) else ():
        yield from _stages(ask, ask.collection, inner)


def _out(ask: Ask, argument: Any) -> Iterator[Need]:
    yield _namespace(ask, argument), _written(ask, "insert", "remove")


def _merge(ask: Ask, argument: Any) -> Iterator[Need]:
    """Ask for updates unless a match is an error, for inserts unless what is new is none or dropped."""
    spec = argument if isinstance(argument, dict) else {"into": argument}
    actions = [] if spec.get("whenMatched") == "fail" else ["update"]
    if spec.get("whenNotMatched") not in ("discard", "fail"):
        actions.append("insert")
    yield _namespace(ask, spec.get("into")), _written(ask, *actions)


def _written(ask: Ask, *actions: str) -> tuple[str, ...]:
    return with_bypass(ask.command, *actions)


def with_bypass(command: Mapping[str, Any], *actions: str) -> tuple[str, ...]:
    """Return what a write needs: one more action where it passes by the collection's validator."""
    return (*actions, _BYPASS) if is_set(command, _BYPASS) else actions


def _namespace(ask: Ask, target: Any) -> Resource:
    """Return the collection that a stage names: by a text in this database, or by `{db, coll}`."""
    if not isinstance(target, dict):
        return Resource(ask.db, target if type(target) is str else "")
    db, collection = target.get("db"), target.get("coll")
    return Resource(ask.db if db is None else str(db), str(collection))


_STAGES: Final[Mapping[str, Callable[[Ask, Any], Iterator[Need]]]] = {
    "$lookup": _lookup,
    "$graphLookup": _lookup,
    "$unionWith": _union,
    "$facet": _facet,
    "$out": _out,
    "$merge": _merge,
}
