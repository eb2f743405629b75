"""The commands for encrypted collections, and the check of the fields that a client encrypts.

Behaviour: `create` refuses `encryptedFields` whose paths, types or queries no client could encrypt (14, 2, 9
and the codes of encryption). compactStructuredEncryptionData and cleanupStructuredEncryptionData refuse a
missing collection (26), a view (166), one that is not encrypted (6346807) and tokens that do not cover its
fields (7294900), and find nothing to compact. A write of a value that is not encrypted (no binary data of
subtype 6) to a path of `encryptedFields` is refused (121), as a validator's are.

Versions: Since 6.0; cleanupStructuredEncryptionData since 7.1.

Not modelled: Nothing is encrypted and nothing is indexed: clients keep their values as they send them. The
collections of state (`enxcol_`) are those that the client makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.binary import UUID_SUBTYPE

from fakeserver.commands.context import namespace
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, type_name
from fakeserver.profile import WIRE_60, WIRE_80
from fakeserver.storage.store.catalog import not_on_view
from fakeserver.storage.values.types import exact, is_number, order
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.commands.context import CommandContext

table = CommandTable()

_EMPTY_PATH: Final = 6316402
_ID_PATH: Final = 6316403
_DUPLICATE_PATH: Final = 6338402
_UNSUPPORTED_TYPE: Final = 6338406
_NOT_ENCRYPTED: Final = 6346807
_RANGE_BOUNDS: Final = 6720005
_RANGE_TYPE: Final = 6775201
_BOUND_TYPE: Final = 7018200
_MISSING_TOKEN: Final = 7294900
_TRIM_FACTOR: Final = 8574000
_TEXT_TYPE: Final = 9783400
_NO_QUERIES: Final = 9783412
_MANY_QUERIES: Final = 9783413
_QUERIES_APART: Final = 9783414
_NULL_BYTE: Final = 9867600
_LENGTHS: Final = 9783406

_TEXT_QUERIES: Final = ("suffixPreview", "prefixPreview", "substringPreview")
_QUERY: Final = Fields.of(
    Field(
        "queryType", "string", required=True, choices=("equality", "range", "rangePreview", *_TEXT_QUERIES)
    ),
    Field("contention", "long", minimum=0),
    Field("sparsity", "long", minimum=1),
    Field("trimFactor", "long", minimum=0),
    Field("precision", "long", minimum=0),
    Field("min"),
    Field("max"),
    *(Field(name, "long", minimum=1) for name in ("strMinQueryLength", "strMaxQueryLength", "strMaxLength")),
    *(Field(name, "strictBool") for name in ("caseSensitive", "diacriticSensitive")),
)
_FIELD: Final = Fields.of(
    Field("path", "string", required=True),
    Field("keyId", "binData"),
    Field("bsonType", "string"),
    Field("queries", "array|object", nullable=False),
)
ENCRYPTED: Final = Fields.of(
    *(Field(name, "string") for name in ("escCollection", "eccCollection", "ecocCollection")),
    Field("fields", "array", required=True, of=_FIELD, sparse=True),
    Field("strEncodeVersion", "int"),
)
"""The fields of `encryptedFields`."""

_BITS: Final = {"int": 32, "long": 64, "date": 64, "double": 64, "decimal": 128}
"""The types of values that a range can be asked for, with the bits that their factor may trim."""

_TYPES: Final = frozenset(
    {
        *("double", "string", "object", "array", "binData", "objectId", "bool", "date", "regex"),
        *("dbPointer", "javascript", "symbol", "javascriptWithScope", "int", "timestamp", "long", "decimal"),
    }
)
_NEVER: Final = frozenset({"null", "undefined", "minKey", "maxKey"})
_NEEDED: Final = {
    "strMinQueryLength": 9783402,
    "strMaxQueryLength": 9783403,
    "caseSensitive": 9783404,
    "diacriticSensitive": 9783405,
}
"""What a query by a part of a text needs, with the code where it is missing."""
_MOST_QUERIES: Final = 2
_UUID_BYTES: Final = 16


def check(document: dict[str, Any]) -> None:
    """Refuse fields that no client could encrypt. Raises `CommandError`."""
    seen = set()
    for each in document["fields"]:
        path = each["path"]
        if not path:
            raise CommandError(_EMPTY_PATH, "Encrypted fields must have a non-empty path")
        if "\0" in path:
            raise CommandError(_NULL_BYTE, "The path of an encrypted field cannot hold a null byte")
        if path.partition(".")[0] == "_id":
            raise CommandError(_ID_PATH, "_id, and what is in it, cannot be encrypted")
        if path in seen:
            raise CommandError(_DUPLICATE_PATH, f"Duplicate paths are not allowed: {path}")
        seen.add(path)
        _check_key(path, each.get("keyId"))
        kind = each.get("bsonType")
        if kind in _NEVER:
            raise CommandError(_UNSUPPORTED_TYPE, f"Type '{kind}' is not a supported encrypted type")
        if kind is not None and kind not in _TYPES:
            raise CommandError(ErrorCode.BAD_VALUE, f"Unknown type name alias: {kind}")
        if "queries" in each:
            queries = each["queries"]
            _check_queries(path, kind, queries if isinstance(queries, list) else [queries])


def _check_key(path: str, key: Any) -> None:
    if key is None:
        return
    if getattr(key, "subtype", 0) != UUID_SUBTYPE:
        raise CommandError(ErrorCode.TYPE_MISMATCH, f"The keyId of '{path}' must be a UUID")
    if len(key) != _UUID_BYTES:
        raise CommandError(ErrorCode.INVALID_UUID, f"The keyId of '{path}' must have {_UUID_BYTES} bytes")


def _check_queries(path: str, kind: str | None, queries: Sequence[Any]) -> None:
    if not queries:
        raise CommandError(_NO_QUERIES, f"The queries of the encrypted field '{path}' are empty")
    for each in queries:
        if not isinstance(each, dict):
            raise CommandError(ErrorCode.TYPE_MISMATCH, f"A query of '{path}' is no object")
        for name in ("contention", "sparsity", "trimFactor"):
            number = each.get(name)
            if is_number(number) and exact(number) != int(exact(number)):
                raise CommandError(ErrorCode.FAILED_TO_PARSE, f"Expected an integer: {name}: {number}")
        _QUERY.check(each, "create.encryptedFields.fields.queries")
    if len(queries) > _MOST_QUERIES:
        raise CommandError(_MANY_QUERIES, f"An encrypted field has at most {_MOST_QUERIES} queries: '{path}'")
    names = [each["queryType"] for each in queries]
    if len(names) > 1 and sorted(names) != ["prefixPreview", "suffixPreview"]:
        raise CommandError(_QUERIES_APART, f"The queries of '{path}' do not go together: {', '.join(names)}")
    for each in queries:
        if each["queryType"] in _TEXT_QUERIES:
            _check_text(path, kind, each)
        elif each["queryType"] != "equality":
            _check_range(path, kind, each)


def _check_text(path: str, kind: str | None, query: Mapping[str, Any]) -> None:
    if kind != "string":
        raise CommandError(_TEXT_TYPE, f"{query['queryType']} is for strings only: '{path}'")
    for name, code in _NEEDED.items():
        if name not in query:
            raise CommandError(code, f"{name} is required for {query['queryType']}: '{path}'")
    if query["strMinQueryLength"] > query["strMaxQueryLength"]:
        raise CommandError(_LENGTHS, f"strMinQueryLength is more than strMaxQueryLength: '{path}'")


def _check_range(path: str, kind: str | None, query: Mapping[str, Any]) -> None:
    if kind not in _BITS:
        raise CommandError(_RANGE_TYPE, f"Type '{kind}' is not one that a range can be asked for: '{path}'")
    bounds = [query[name] for name in ("min", "max") if name in query]
    for bound in bounds:
        if type_name(bound) != kind:
            raise CommandError(_BOUND_TYPE, f"The bounds of '{path}' must have the type '{kind}'")
    if len(bounds) == _MOST_QUERIES and order(bounds[0]) >= order(bounds[1]):
        raise CommandError(_RANGE_BOUNDS, f"The minimum of '{path}' must be less than its maximum")
    if query.get("trimFactor", 0) >= _BITS[kind]:
        raise CommandError(_TRIM_FACTOR, f"The trimFactor of '{path}' must be less than {_BITS[kind]}")


def _compact(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    ns = namespace(ctx, request)
    collection = ctx.catalog.get(ns)
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, f"Collection '{ns}' does not exist")
    if collection.is_view:
        raise not_on_view(ns)
    encrypted = collection.options.get("encryptedFields")
    if encrypted is None:
        raise CommandError(_NOT_ENCRYPTED, "Target namespace is not an encrypted collection")
    tokens = next(request[name] for name in ("compactionTokens", "cleanupTokens") if name in request)
    for each in encrypted.get("fields", ()):
        if each["path"] not in tokens:
            raise CommandError(_MISSING_TOKEN, f"No token for the encrypted path '{each['path']}'")
    nothing = dict.fromkeys(("read", "inserted", "updated", "deleted"), 0)
    return {"stats": {"ecoc": {"read": 0, "deleted": 0}, "esc": nothing}}


@table.command(
    "compactStructuredEncryptionData",
    kind="write",
    since=WIRE_60,
    fields=Fields.of(
        Field("compactionTokens", "object", required=True),
        Field("encryptionInformation", "object"),
        Field("anchorPaddingFactor", "double"),
        target="collection",
    ),
)
def compact_structured_encryption_data(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Compact the state of an encrypted collection: there is none."""
    return _compact(ctx, request)


@table.command(
    "cleanupStructuredEncryptionData",
    kind="write",
    since=WIRE_80,
    fields=Fields.of(Field("cleanupTokens", "object", required=True), target="collection"),
)
def cleanup_structured_encryption_data(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Clean up the state of an encrypted collection: there is none."""
    return _compact(ctx, request)
