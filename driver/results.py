"""Results of writes (CRUD: Write Results). Without acknowledgement the counts are unknown: 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class InsertOneResult:
    """The `_id` of the document."""

    inserted_id: Any
    acknowledged: bool = True


@dataclass(frozen=True, slots=True)
class InsertManyResult:
    """The `_id` of each document, by its index in the request."""

    inserted_ids: Mapping[int, Any]
    acknowledged: bool = True


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What matched, what changed, and the `_id` of an upsert; `upserted` says whether there was one."""

    matched_count: int = 0
    modified_count: int = 0
    upserted_id: Any = None
    upserted: bool = False
    acknowledged: bool = True


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """How many documents were deleted."""

    deleted_count: int = 0
    acknowledged: bool = True


@dataclass(frozen=True, slots=True)
class BulkWriteResult:
    """The sums of a bulk write; ids are by index in the request.

    A verbose client bulk write has a result for each model that succeeded in the last three fields.
    """

    inserted_count: int = 0
    matched_count: int = 0
    modified_count: int = 0
    deleted_count: int = 0
    upserted_count: int = 0
    inserted_ids: Mapping[int, Any] = field(default_factory=dict)
    upserted_ids: Mapping[int, Any] = field(default_factory=dict)
    acknowledged: bool = True
    insert_results: Mapping[int, InsertOneResult] | None = None
    update_results: Mapping[int, UpdateResult] | None = None
    delete_results: Mapping[int, DeleteResult] | None = None
