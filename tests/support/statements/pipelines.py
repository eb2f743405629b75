"""Pipelines, by the table of the stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.storage.stages import pipeline_stages as stages
from statements.accumulators import Accumulators
from statements.values import COLLECTIONS, UNITS

if TYPE_CHECKING:
    from statements.expressions import Makers

STAGES = tuple(stages._STAGES)
TOO_MANY = 1001


class Pipelines(Accumulators):
    """Draws pipelines, and the updates that are pipelines."""

    def change(self) -> Any:
        """Return an update: operators, a replacement or a pipeline."""
        return self.one_of(self.operators, self.operators, self.document, self.update_pipeline)

    def update_pipeline(self) -> list[Any]:
        """Return an update by a pipeline."""
        return [self.stage(self.pick(("$set", "$unset", "$replaceWith", "$project", "$match")), 1)]

    def pipeline(self, depth: int = 2) -> Any:
        """Return a pipeline."""
        if self.chance(0.0005):
            return [{"$limit": 1}] * TOO_MANY
        return self.several(lambda: self.or_wrong(lambda: self.stage(self.pick(STAGES), depth)), 0, 3)

    def stage(self, name: str, depth: int = 2) -> Any:
        """Return a stage of a pipeline."""
        self.say("stage", name)
        return {name: self.or_wrong(lambda: self._stage(name, depth - 1))}

    def _stage(self, name: str, depth: int) -> Any:
        tables = (self._of_one_document(depth), self._of_groups(depth), self._of_gaps(depth))
        made: Makers = {**self._joins(depth), **self._of_order()}
        for table in tables:
            made |= table
        return made.get(name, self.anything)()

    def of(self, depth: int) -> Any:
        """Return an expression as deep as a stage may have it."""
        return self.expression(max(depth, 1))

    def collection(self) -> str:
        """Return the name of a collection."""
        return str(self.pick(COLLECTIONS))

    def _inner(self, depth: int) -> Any:
        return self.pipeline(depth) if depth > 0 else []

    def _of_one_document(self, depth: int) -> Makers:
        def root() -> Any:
            return self.pick(("$$ROOT", "$a", {"x": self.of(depth)}))

        def unwound() -> Any:
            options: Makers = {"includeArrayIndex": self.path, "preserveNullAndEmptyArrays": lambda: True}
            return self.parts({"path": lambda: "$a"}, options)

        kept = ("$$KEEP", "$$PRUNE", "$$DESCEND")
        return {
            "$match": lambda: self.filter(2),
            "$project": self.projection,
            "$redact": lambda: self.one_of(lambda: self.pick(kept), lambda: self.of(depth)),
            "$addFields": lambda: {self.path(): self.of(depth)},
            "$set": lambda: {self.path(): self.of(depth)},
            "$unset": lambda: self.one_of(self.path, lambda: self.several(self.path, 1)),
            "$replaceRoot": lambda: self.parts({"newRoot": root}, {}),
            "$replaceWith": root,
            "$unwind": lambda: self.one_of(lambda: "$a", unwound),
        }

    def _of_order(self) -> Makers:
        near: Makers = {"near": self.point, "distanceField": self.path}
        options: Makers = {
            "spherical": lambda: True,
            "key": self.path,
            "query": lambda: self.filter(1),
            **dict.fromkeys(("maxDistance", "minDistance", "distanceMultiplier"), self.small),
            "includeLocs": self.path,
        }
        return {
            "$sort": self.sort,
            "$limit": lambda: self.pick((1, 2, 100)),
            "$skip": lambda: self.pick((0, 1, 5)),
            "$count": self.path,
            "$sample": lambda: self.parts({"size": lambda: self.pick((1, 3))}, {}),
            "$geoNear": lambda: self.parts(near, options),
        }

    def _joins(self, depth: int) -> Makers:
        def lookup() -> Any:
            fields: Makers = {"localField": self.path, "foreignField": self.path}
            piped: Makers = {"pipeline": lambda: self._inner(depth)}
            chosen = self.pick((fields, piped, {**fields, **piped}))
            needed: Makers = {"from": self.collection, "as": self.path, **chosen}
            return self.parts(needed, {"let": lambda: {"v": self.of(depth)}})

        def walked() -> Any:
            needed: Makers = {
                "from": self.collection,
                "startWith": lambda: self.of(depth),
                **dict.fromkeys(("connectFromField", "connectToField", "as"), self.path),
            }
            bounds: Makers = {"maxDepth": self.small, "depthField": self.path}
            return self.parts(needed, {**bounds, "restrictSearchWithMatch": self.filter})

        def united() -> Any:
            return self.parts({"coll": self.collection}, {"pipeline": lambda: self._inner(depth)})

        return {
            "$lookup": lookup,
            "$graphLookup": walked,
            "$unionWith": lambda: self.one_of(self.collection, united),
            "$facet": lambda: {self.pick(("x", "y")): self._inner(depth)},
        }

    def _of_groups(self, depth: int) -> Makers:
        def of() -> Any:
            return self.of(depth)

        def computed() -> Any:
            names = [self.pick(("x", "y")) for _ in range(self.rng.randint(0, 2))]
            return {"_id": of(), **{name: self.or_wrong(self.accumulator) for name in names}}

        def boundaries() -> Any:
            return self.pick(([0, 1, 5], ["a", "b"], [1, 0], [1]))

        output: Makers = {"output": lambda: {"x": self.accumulator()}}
        granularity: Makers = {"granularity": lambda: self.pick(("R5", "POWERSOF2", "x"))}
        count: Makers = {"buckets": lambda: self.pick((1, 2, 5, 0))}
        return {
            "$group": computed,
            "$bucketAuto": lambda: self.parts({"groupBy": of, **count}, {**output, **granularity}),
            "$sortByCount": lambda: self.one_of(self.reference, of),
            "$bucket": lambda: self.parts(
                {"groupBy": of, "boundaries": boundaries}, {"default": self.scalar, **output}
            ),
            "$setWindowFields": self._windows,
        }

    def _windows(self) -> Any:
        key = self.pick(("_id", "a", "n", "t", "n", "t"))
        needed: Makers = {
            "output": lambda: {self.pick(("x", "y.z")): self.or_wrong(lambda: self.windowed(key))},
            "sortBy": lambda: {key: 1},
        }
        return self.parts(needed, {"partitionBy": lambda: self.pick(("$_id", "$a", 1))})

    def _of_gaps(self, depth: int) -> Makers:
        def stepped() -> Any:
            bounds = ("full", "partition", [0, 5], [1], "x")
            needed: Makers = {
                "step": lambda: self.pick((1, 2, 0.5, 0, -1)),
                "bounds": lambda: self.pick(bounds),
            }
            return self.parts(needed, {"unit": lambda: self.pick(UNITS)})

        def filled() -> Any:
            ways = ({"value": self.of(depth)}, {"method": "linear"}, {"method": "locf"}, {"method": "x"})
            return {self.path(): self.or_wrong(lambda: self.pick(ways))}

        partitions: Makers = {"partitionByFields": lambda: self.several(self.path)}
        field: Makers = {"field": lambda: self.pick(("a", "n", "t", "b"))}
        return {
            "$densify": lambda: self.parts({**field, "range": stepped}, partitions),
            "$fill": lambda: self.parts(
                {"output": filled},
                {"sortBy": self.sort, "partitionBy": lambda: self.of(depth), **partitions},
            ),
        }
