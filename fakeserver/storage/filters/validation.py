"""Validators of collections, and the details that a client gets of a failed validation.

The catalog keeps a `Validator` with each collection that has one, and asks it before a document is inserted
or replaced by its successor. A failure is error 121 with the details as `errInfo`, in which a client finds
the conditions that failed; they are made only then, as they cost a second look at each condition.

At the level `strict` each write is checked. A `moderate` validator lets an update pass where the document
before did not match either. The level `off` and the action `warn` make no validator at all, and
`bypassDocumentValidation` is up to the callers.

A validator knows no collection but its own and no client: it cannot search, run scripts or draw random
numbers. `$$NOW` and `$$CLUSTER_TIME` change from write to write, so a validator that names them is compiled
anew for each check.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from bson import Binary

from fakeserver.errors import WriteError
from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.filters.matching import SEARCHES, compile_filter, refuse_operators
from fakeserver.storage.port.engine import Scope
from fakeserver.storage.values.collation import fold_of
from fakeserver.storage.values.paths import exactly, split
from fakeserver.storage.values.types import MISSING
from fakeserver.waiting.first_use import at_first_use
from fakeserver.waiting.interrupts import in_one_turn
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.storage.port.engine import Document

_schema = at_first_use("fakeserver.storage.filters.schema")

_SENSITIVE: Final = 6
"""The subtype of binary data that a client has encrypted."""
_NO_BUILTINS: Final[Mapping[str, Any]] = MappingProxyType({})


class Validator:
    """A filter that every document of a collection shall match. Raises `CommandError` for a bad filter.

    A moderate one leaves a document that did not match before alone when it is updated. Strings are compared
    by the collection's `collation`.
    """

    def __init__(
        self, query: Mapping[str, Any], *, moderate: bool = False, collation: Mapping[str, Any] | None = None
    ) -> None:
        refuse_operators(query, SEARCHES)
        self.query = query
        self.moderate = moderate
        # By its text, which may name them where it only says so (`$literal`): then it is compiled in vain.
        text = str(query)
        self._builtins = tuple(name for name in ("NOW", "CLUSTER_TIME") if f"$${name}" in text)
        self._scope = Scope(
            fold_of(collation) if collation else None, variables=dict.fromkeys(self._builtins)
        )
        self._accepts = compile_filter(query, self._scope)

    @property
    def names_builtins(self) -> bool:
        """Whether it asks for `$$NOW` or `$$CLUSTER_TIME`, so that its checks need their values."""
        return bool(self._builtins)

    def check(
        self, document: Document, before: Document | None = None, builtins: Mapping[str, Any] = _NO_BUILTINS
    ) -> None:
        """Refuse a document, which was `before` if it is updated. Raises `WriteError` 121 with `errInfo`."""
        # A filter has yield points. At one of them another command could change the document that this
        # write is about to replace.
        with in_one_turn():
            accepts = self._accepts
            if self._builtins:
                accepts = compile_filter(self.query, self._scope.binding(builtins))
            if accepts(document) or (self.moderate and before is not None and not accepts(before)):
                return
            details = self._details(document, self._scope.binding(builtins))
        raise _failed_validation(document, details)

    def _details(self, document: Document, scope: Scope) -> Document:
        """Return what failed, condition by condition.

        A lone `$jsonSchema` reports its keywords, a lone condition itself; several are a conjunction, with
        the index of each that failed.
        """
        if set(self.query) == {"$jsonSchema"}:
            schema = self.query["$jsonSchema"]
            violations = _schema.compile_schema(schema)(document)
            described = {name: schema[name] for name in ("title", "description") if name in schema}
            return {"operatorName": "$jsonSchema", **described, "schemaRulesNotSatisfied": violations}
        clauses = [
            (compile_filter({name: condition}, scope), name, condition)
            for name, condition in self.query.items()
        ]
        failed = [clause for clause in clauses if not clause[0](document)]
        explained = [explain(name, condition, document) for _accepts, name, condition in failed]
        if len(self.query) == 1:
            return explained[0]
        indexes = {name: index for index, name in enumerate(self.query)}
        unsatisfied = [
            {"index": indexes[name], "details": details}
            for (_accepts, name, _condition), details in zip(failed, explained, strict=True)
        ]
        return {"operatorName": "$and", "clausesNotSatisfied": unsatisfied}


def check_encrypted(fields: Mapping[str, Any], document: Document) -> None:
    """Refuse a value that is not encrypted, where `encryptedFields` has a path. Raises `WriteError` 121."""
    for each in fields["fields"]:
        value = exactly(document, split(each["path"]))
        if value is MISSING or (isinstance(value, Binary) and value.subtype == _SENSITIVE):
            continue
        details = {
            "operatorName": "fle2Encrypt",
            "reason": "value was not encrypted",
            "consideredValue": value,
        }
        failed = {"propertyName": each["path"], "details": [details]}
        raise _failed_validation(
            document,
            {
                "operatorName": "$jsonSchema",
                "schemaRulesNotSatisfied": [
                    {"operatorName": "properties", "propertiesNotSatisfied": [failed]},
                ],
            },
        )


def _failed_validation(document: Document, details: Document) -> WriteError:
    return WriteError(
        ErrorCode.DOCUMENT_VALIDATION_FAILURE,
        "Document failed validation",
        extra={"errInfo": {"failingDocumentId": document.get("_id"), "details": details}},
    )


def explain(name: str, condition: Any, document: Document) -> Document:
    """Return why a document does not match one condition, as `errInfo.details` has it.

    It tells the first operator of the condition, a missing field and a type that did not match; a server
    tells more of operators that contain others.
    """
    operator = next(iter(condition)) if is_operators(condition) else "$eq"
    if name.startswith("$"):
        operator = name
    specified = {name: condition}
    value = exactly(document, split(name))
    if name.startswith("$"):
        return {"operatorName": operator, "specifiedAs": specified, "reason": "expression did not match"}
    if value is MISSING:
        return {"operatorName": operator, "specifiedAs": specified, "reason": "field was missing"}
    reason = "type did not match" if operator == "$type" else "comparison failed"
    return {
        "operatorName": operator,
        "specifiedAs": specified,
        "reason": reason,
        "consideredValue": value,
    }
