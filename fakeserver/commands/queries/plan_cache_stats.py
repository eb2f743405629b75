"""The documents of `$planCacheStats`: the plans that a collection remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bson import Int64

from fakeserver.commands.queries.plan_cache import plan_hash
from fakeserver.profile import WIRE_80
from fakeserver.storage.values.limits import weight
from fakeserver.waiting.first_use import at_first_use
from fakeserver.waiting.interrupts import interruptible

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.plans.plan_cache import CachedPlan
    from fakeserver.storage.port.engine import Document, Namespace

_explaining = at_first_use("fakeserver.commands.queries.explain")

_PLAN_BYTES: Final = 2048
_MOST_BYTES: Final = 1 << 20


def cached_plans(ctx: CommandContext, ns: Namespace) -> list[Document]:
    """Return the remembered plans of a collection as documents."""
    plans = list(ctx.catalog.engine.plan_cache(ns).plans.values())
    return [_described(ctx, ns, each) for each in interruptible(plans)]


def _described(ctx: CommandContext, ns: Namespace, cached: CachedPlan) -> Document:
    query, release = cached.query, ctx.node.profile.max_wire_version
    # The plan is kept, its run is not: of that only the number of reads is known.
    explanation = ctx.catalog.engine.explain(ns, query, run=False)
    explanation = replace(explanation, keys=cached.works, documents=cached.works, returned=cached.works)
    command = _explaining.ExplainedCommand("find", query)
    candidates = (explanation, *explanation.others)
    shape = plan_hash(query.filter, query.sort, query.projection, query.collation)
    asked: Document = {
        "query": dict(query.filter),
        "sort": dict(query.sort or {}),
        "projection": dict(query.projection or {}),
    }
    if query.collation:
        asked["collation"] = dict(query.collation)
    names = ("queryHash", "planCacheShapeHash") if release >= WIRE_80 else ("queryHash",)
    return {
        "version": "1",
        **dict.fromkeys(names, shape),
        "planCacheKey": shape,
        "isActive": cached.is_active,
        "works": Int64(cached.works + 1),
        **({"worksType": "works"} if release >= WIRE_80 else {}),
        "timeOfCreation": cached.at,
        "createdFromQuery": asked,
        "cachedPlan": _explaining.tree(command, explanation),
        "creationExecStats": [
            _explaining.tried(command, each, place) for place, each in enumerate(candidates)
        ],
        "candidatePlanScores": [_explaining.score_of(place) for place in range(len(candidates))],
        "indexFilterSet": query.allowed is not None,
        "estimatedSizeBytes": Int64(_PLAN_BYTES + weight(asked, _MOST_BYTES)),
        "host": ctx.node.address,
    }
