"""The models of bulk writes, and what each becomes in a command (CRUD: Bulk Write Models).

A model for `AsyncClient.bulk_write` names its `namespace`; one for `Collection.bulk_write` must not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from driver.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The root of all models. `verb` is the command that carries it, `multi` whether it hits many."""

    verb: ClassVar[str] = ""
    multi: ClassVar[bool] = False
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertOne(Model):
    """Insert a document."""

    verb: ClassVar[str] = "insert"
    document: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filtered(Model):
    filter: Document
    collation: Document | None = None
    hint: Any = None

    def shared(self) -> dict[str, Any]:
        if self.collation is None and self.hint is None:
            return {}
        return _present(collation=self.collation, hint=self.hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOne(_Filtered):
    """Delete the first document that matches."""

    verb: ClassVar[str] = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMany(DeleteOne):
    """Delete all documents that match."""

    multi: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changing(_Filtered):
    verb: ClassVar[str] = "update"
    upsert: bool | None = None

    @property
    def change(self) -> Any:
        raise NotImplementedError

    def extra(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOne(_Changing):
    """Change the first document that matches."""

    update: Document | Sequence[Document]
    array_filters: Sequence[Document] | None = None
    sort: Document | None = None

    @property
    def change(self) -> Any:
        check_update(self.update)
        return self.update

    def extra(self) -> dict[str, Any]:
        if self.array_filters is None and self.sort is None:
            return {}
        return _present(arrayFilters=self.array_filters, sort=self.sort)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMany(UpdateOne):
    """Change all documents that match."""

    multi: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceOne(_Changing):
    """Replace the first document that matches."""

    replacement: Document
    sort: Document | None = field(default=None)

    @property
    def change(self) -> Any:
        check_replacement(self.replacement)
        return self.replacement

    def extra(self) -> dict[str, Any]:
        return {} if self.sort is None else {"sort": self.sort}


def _present(**fields: Any) -> dict[str, Any]:
    """Return the fields that are set."""
    return {name: value for name, value in fields.items() if value is not None}


WriteModel: TypeAlias = InsertOne | UpdateOne | UpdateMany | ReplaceOne | DeleteOne | DeleteMany


def has_hint(model: WriteModel) -> bool:
    """Say whether a model names the index to use."""
    return isinstance(model, _Filtered) and model.hint is not None


def check_update(update: Any) -> None:
    """Raise InvalidArgumentError unless this is a pipeline or a document that begins with an operator."""
    if isinstance(update, list | tuple):
        return
    if not update or not str(next(iter(update))).startswith("$"):
        raise InvalidArgumentError(
            "an update must be a pipeline, or a document that begins with an operator such as $set"
        )


def check_replacement(replacement: Any) -> None:
    """Raise InvalidArgumentError for a document that begins with an operator."""
    if isinstance(replacement, list | tuple):
        raise InvalidArgumentError("a replacement is a document, not a pipeline")
    if replacement and str(next(iter(replacement))).startswith("$"):
        raise InvalidArgumentError("a replacement cannot begin with an operator; use an update")


def with_id(document: Document, make_id: Callable[[], Any]) -> Document:
    """Return the document with an `_id`, which comes first when it had to be made."""
    return document if "_id" in document else {"_id": make_id(), **document}


def statement(model: WriteModel) -> dict[str, Any]:
    """Return a model as a statement of `update` or `delete`, or the document of an `insert`."""
    match model:
        case InsertOne():
            return dict(model.document)
        case DeleteOne():
            return {"q": model.filter, "limit": 0 if model.multi else 1, **model.shared()}
        case UpdateOne() | ReplaceOne():
            flags: dict[str, Any] = {"multi": True} if model.multi else {}
            if model.upsert is not None:
                flags["upsert"] = model.upsert
            return {"q": model.filter, "u": model.change, **flags, **model.extra(), **model.shared()}


def operation(model: WriteModel, namespace_index: int) -> dict[str, Any]:
    """Return a model as an operation of the `bulkWrite` command."""
    match model:
        case InsertOne():
            return {"insert": namespace_index, "document": model.document}
        case DeleteOne():
            return {"delete": namespace_index, "filter": model.filter, "multi": model.multi, **model.shared()}
        case UpdateOne() | ReplaceOne():
            upsert = {} if model.upsert is None else {"upsert": model.upsert}
            return {
                "update": namespace_index,
                "filter": model.filter,
                "updateMods": model.change,
                "multi": model.multi,
                **upsert,
                **model.extra(),
                **model.shared(),
            }
