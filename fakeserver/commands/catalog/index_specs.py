"""Specifications of indexes: what createIndexes accepts, completed as listIndexes shows them.

The checks run in a server's order, because a specification that is wrong in two ways shows one error:
required fields, types, version, key, the index of `_id`, name, expiry, partial filter, then the rules of the
kind of index. Most refusals quote the specification; the code is 67 CannotCreateIndex unless a rule has its
own. A text index is kept with its fields as weights and one key for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Regex

from fakeserver.errors import CommandError
from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.plans.index_keys import holds_path, is_id_key, is_wildcard
from fakeserver.storage.port.engine import IndexSpec
from fakeserver.storage.values.collation import complete
from fakeserver.storage.values.printing import show, show_document
from fakeserver.storage.values.types import INT32_MAX, exact, is_nan, is_number, truthy, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeserver.storage.port.engine import Namespace
    from fakeserver.storage.store.catalog import Collection


_PLUGINS: Final = frozenset({"text", "2d", "2dsphere", "hashed", "columnstore", "queryable_encrypted_range"})
_KINDS: Final[dict[str, str]] = {
    "v": "number", "key": "object", "name": "string", "ns": "string", "unique": "flag", "sparse": "flag",
    "expireAfterSeconds": "any", "partialFilterExpression": "object", "collation": "object",
    "hidden": "bool", "background": "any", "dropDups": "any", "storageEngine": "object", "weights": "any",
    "default_language": "string", "language_override": "string", "textIndexVersion": "number",
    "2dsphereIndexVersion": "number", "bits": "number", "min": "number", "max": "number",
    "wildcardProjection": "object", "prepareUnique": "flag", "clustered": "flag", "bucketSize": "number",
}  # fmt: skip
"""The options of an index, and what each has to be; a flag is a bool or a number."""

_ON_ID: Final = frozenset({"v", "key", "name", "ns", "collation", "clustered", "unique", "background"})
_NOT_SHOWN: Final = frozenset({"dropDups", "ns", "collation"})
_ONLY_IF_TRUE: Final = frozenset({"hidden", "unique"})
_DOUBLES: Final = frozenset({"min", "max"})
_MANY_WILDCARDS: Final = 7246201
_NO_WILDCARD: Final = 7246202
_NOT_LEFT_OUT: Final = 7246209
_MAX_KEYS: Final = 32
_MAX_INDEXES: Final = 64
_MOST_BITS: Final = 32
_MAX_WEIGHT: Final = 1_000_000_000
_LANGUAGES: Final = frozenset({
    "da", "danish", "de", "dutch", "en", "english", "es", "fi", "finnish", "fr", "french", "german", "hu",
    "hungarian", "it", "italian", "nb", "nl", "none", "norwegian", "portuguese", "pt", "ro", "romanian", "ru",
    "russian", "spanish", "sv", "swedish", "tr", "turkish",
})  # fmt: skip


def parse(document: Mapping[str, Any], collection: Collection | None, *, lenient: bool) -> IndexSpec:
    """Return an index specification with its defaults. Raises `CommandError` for a bad one.

    `lenient` leaves out fields that no index has, instead of refusing them.
    """
    # ignoreUnknownIndexOptions: tools copy indexes of old servers, whose options no release knows any more.
    if lenient:
        document = {name: value for name, value in document.items() if name in _KINDS}
    for name in ("key", "name"):
        if name not in document:
            message = f"The '{name}' field is a required property of an index specification"
            raise _refused(document, message, ErrorCode.FAILED_TO_PARSE)
    _check_types(document)
    key = document["key"]
    _check_version(document)
    _check_key(document, key)
    if is_id_key(key):
        _check_id_index(document, collection)
    _check_name(document["name"], key)
    _check_ttl(document)
    _check_owner(document, collection)
    if "partialFilterExpression" in document:
        if document.get("sparse"):
            raise _refused(document, 'cannot mix "partialFilterExpression" and "sparse" options')
        check_partial_filter(document["partialFilterExpression"])
    for kind, check in _CHECKS.items():
        if kind in key.values():
            check(document, key)
    if "weights" in document and "text" not in key.values() and "_fts" not in key:
        raise _refused(document, "The field 'weights' is only allowed in a 'text' index")
    if is_wildcard(key):
        _check_wildcard(document, key)
    elif "wildcardProjection" in document:
        reason = "The field 'wildcardProjection' is only allowed in an 'wildcard' index"
        raise _refused(document, reason, ErrorCode.BAD_VALUE)
    return _completed(document, key, _collation(document, collection))


def _completed(
    document: Mapping[str, Any], key: Mapping[str, Any], collation: Mapping[str, Any] | None
) -> IndexSpec:
    shown: dict[str, Any] = {"v": document.get("v", 2), "key": dict(key), "name": document["name"]}
    options = {name: value for name, value in document.items() if name not in shown}
    if "expireAfterSeconds" in options:
        options["expireAfterSeconds"] = int(exact(options["expireAfterSeconds"]))
    shown |= {
        name: value
        for name, value in options.items()
        if name not in _NOT_SHOWN and (value or name not in _ONLY_IF_TRUE)
    }
    if collation:
        shown["collation"] = dict(collation)
    if "text" in key.values():
        shown = _as_text_index(shown)
    if "2dsphere" in key.values():
        shown.setdefault("2dsphereIndexVersion", 3)
    unique = bool(document.get("unique") or document.get("prepareUnique"))
    return IndexSpec(document["name"], shown["key"], unique, bool(document.get("sparse")), shown)


def listed(index: IndexSpec) -> dict[str, Any]:
    """Return an index as a list of them shows it: the bounds of a flat map are doubles there."""
    return {
        name: float(exact(value)) if name in _DOUBLES else value for name, value in index.document.items()
    }


def _refused(
    document: Mapping[str, Any], reason: str, code: int = ErrorCode.CANNOT_CREATE_INDEX
) -> CommandError:
    return CommandError(code, f"Error in specification {show_document(document)} :: caused by :: {reason}")


def _check_types(document: Mapping[str, Any]) -> None:
    for name, value in document.items():
        wanted = _KINDS.get(name)
        if wanted is None:
            raise _not_valid(name, "an index", document)
        kind = type_name(value)
        if wanted == "flag" and not isinstance(value, bool) and not is_number(value):
            reason = f"The field '{name}' has value {name}: {show(value)}, which is not convertible to bool"
        elif wanted == "number" and not is_number(value):
            reason = f"The field '{name}' must be a number, but got {kind}"
        elif wanted in {"object", "string", "bool"} and kind != wanted:
            article = "an object" if wanted == "object" else f"a {wanted}"
            reason = f"The field '{name}' must be {article}, but got {kind}"
        else:
            continue
        raise _refused(document, reason, ErrorCode.TYPE_MISMATCH)


def _not_valid(name: str, kind: str, document: Mapping[str, Any]) -> CommandError:
    return CommandError(
        ErrorCode.INVALID_INDEX_SPECIFICATION_OPTION,
        f"The field '{name}' is not valid for {kind} specification. Specification: {show_document(document)}",
    )


def _check_version(document: Mapping[str, Any]) -> None:
    version = document.get("v", 2)
    if version not in (1, 2):
        raise _refused(
            document, f"Invalid index specification {show_document(document)}; cannot create an index with"
            f" v={show(version)}"
        )  # fmt: skip


def _check_key(document: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    reason = None if key else "Index keys cannot be an empty object."
    for name, value in key.items():
        if value == "wildcard" and name.split(".")[-1] != "$**":
            raise _refused(document, f"'{name}' is no wildcard, of which the index is one", _NO_WILDCARD)
        reason = reason or _bad_name(name) or _bad_direction(value)
    if reason is not None:
        raise _refused(document, reason)
    if len(key) > _MAX_KEYS:
        raise CommandError(13103, "too many compound keys")
    if sum(name.split(".")[-1] == "$**" for name in key) > 1:
        reason = "wildcard indexes do not allow multiple wildcards in their keys"
        raise _refused(document, reason, _MANY_WILDCARDS)
    plugins = {value for value in key.values() if type(value) is str}
    if len(plugins) > 1:
        raise _refused(document, "Can't use more than one index plugin for a single index.")


def _bad_name(name: str) -> str | None:
    if not name:
        return "Index keys cannot be an empty field."
    parts = name.split(".")
    if not all(parts):
        return "Index keys cannot contain an empty field."
    if name == "_fts":  # the key of a text index as listIndexes shows it, which tools send back
        return None
    if parts[-1] == "$**":
        parts.pop()
    for index, part in enumerate(parts):
        # $db, $id and $ref are the fields of a DBRef, and stand behind the field that holds it.
        if part.startswith("$") and not (index and part in {"$db", "$id", "$ref"}):
            return "Index key contains an illegal field name: field name starts with '$'."
    return None


def _bad_direction(value: Any) -> str | None:
    if type(value) is str:
        return None if value in _PLUGINS else f"Unknown index plugin '{value}'"
    if not is_number(value):
        return (
            f"Values in v:2 index key pattern cannot be of type {type_name(value)}. Only numbers > 0, numbers"
            " < 0, and strings are allowed."
        )
    if is_nan(value):
        return "Values in the index key pattern cannot be NaN."
    return "Values in the index key pattern cannot be 0." if float(str(value)) == 0 else None


def _check_id_index(document: Mapping[str, Any], collection: Collection | None) -> None:
    for name in document:
        if name not in _ON_ID:
            raise _not_valid(name, "an _id index", document)
    if not document.get("unique", True):
        raise CommandError(ErrorCode.CANNOT_CREATE_INDEX, "_id index cannot be non-unique")
    if document["key"]["_id"] != 1:
        shown = show_document(document["key"])
        raise CommandError(
            ErrorCode.BAD_VALUE, f"The field 'key' for an _id index must be {{_id: 1}}, but got {shown}"
        )
    inherited = collection.collation if collection is not None else None
    if "collation" in document and complete(document["collation"]) != complete(inherited):
        raise CommandError(
            ErrorCode.BAD_VALUE, "The _id index must have the same collation as the collection."
        )


def _check_name(name: str, key: Mapping[str, Any]) -> None:
    if not name:
        raise CommandError(ErrorCode.CANNOT_CREATE_INDEX, "index name cannot be empty")
    if "\0" in name:
        raise CommandError(ErrorCode.CANNOT_CREATE_INDEX, "index name cannot contain NUL bytes")
    if name == "*":
        raise CommandError(ErrorCode.BAD_VALUE, "The index name '*' is not valid.")
    if name == "_id_" and not is_id_key(key):
        raise CommandError(
            ErrorCode.BAD_VALUE,
            "The index name '_id_' is reserved for the _id index, which must have key pattern {_id: 1}, found"
            f" key: {show_document(key)}",
        )


def _check_ttl(document: Mapping[str, Any]) -> None:
    if "expireAfterSeconds" not in document:
        return
    seconds = document["expireAfterSeconds"]
    reason = bad_expiry(seconds)
    if reason is None and len(document["key"]) != 1:
        reason = "TTL indexes are single-field indexes, compound indexes do not support TTL"
    if reason is not None:
        raise CommandError(ErrorCode.CANNOT_CREATE_INDEX, f"{reason}. Index spec: {show_document(document)}")


def bad_expiry(seconds: Any) -> str | None:
    """Return what is wrong with an `expireAfterSeconds`, None if nothing is."""
    if not is_number(seconds):
        return (
            "TTL index 'expireAfterSeconds' option must be numeric, but received a type of"
            f" '{type_name(seconds)}'"
        )
    if is_nan(seconds):
        return "TTL index 'expireAfterSeconds' option must not be NaN"
    if float(str(seconds)) < 0:
        return "TTL index 'expireAfterSeconds' option cannot be less than 0"
    if float(str(seconds)) > INT32_MAX:
        return (
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different number"
        )
    return None


def _check_wildcard(document: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    for name in ("sparse", "unique"):
        if document.get(name):
            raise _refused(document, f"Index type 'wildcard' does not support the {name} option")
    if "expireAfterSeconds" in document:
        raise _refused(document, "Index type 'wildcard' cannot be a TTL index")
    if any(type(value) is str for value in key.values()):
        raise _refused(document, "A wildcard index cannot have another kind of index in its key")
    if document.get("v", 2) == 1:
        raise _refused(document, "Index type 'wildcard' needs an index version of 2 at least")
    projection = document.get("wildcardProjection")
    if projection is not None:
        if "$**" not in key or not projection:
            reason = (
                "The 'wildcardProjection' field can't be an empty object"
                if not projection
                else "The field 'wildcardProjection' is only allowed when 'key' has '$**'"
            )
            raise _refused(document, reason, ErrorCode.FAILED_TO_PARSE)
        _check_wildcard_projection(projection)
    if len(key) > 1 and "$**" in key:
        if projection is None:
            raise _refused(document, "A compound wildcard index of all fields needs a 'wildcardProjection'")
        for name in key:
            if name != "$**" and holds_path(key, projection, name):
                reason = f"wildcardProjection must leave out '{name}', which is in the key by itself"
                raise _refused(document, reason, _NOT_LEFT_OUT)


def _check_wildcard_projection(projection: Mapping[str, Any]) -> None:
    """Refuse a projection that mixes in and out, computes, or has one path below another.

    Raises `CommandError`: 31249 or 31250 for paths, 31253 or 31254 for a mixture, 51271 for a value that is
    neither a number nor a bool.
    """
    seen: dict[str, bool] = {}
    for path, value in _leaves(projection):
        for other in seen:
            if f"{path}.".startswith(f"{other}."):
                raise CommandError(
                    31249, f"Path collision at {path} remaining portion {path[len(other) + 1 :]}"
                )
            if f"{other}.".startswith(f"{path}."):
                raise CommandError(31250, f"Path collision at {path}")
        if not isinstance(value, bool) and not is_number(value):
            message = "Bad projection specification, cannot use computed fields when parsing a spec in banned"
            raise CommandError(51271, f"{message} computed fields mode: {show_document(projection)}")
        included = truthy(value)
        kept = next((way for name, way in seen.items() if name != "_id"), included)
        if path != "_id" and included != kept:
            raise CommandError(
                31254 if kept else 31253,
                f"Cannot do {'inclusion' if included else 'exclusion'} on field {path} in"
                f" {'inclusion' if kept else 'exclusion'} projection",
            )
        seen[path] = included


def _leaves(projection: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in projection.items():
        if isinstance(value, dict) and value and not next(iter(value)).startswith("$"):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _check_hashed(document: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    if document.get("unique"):
        raise CommandError(
            16764, "Currently hashed indexes cannot guarantee uniqueness. Use a regular index."
        )
    hashed = [name for name, kind in key.items() if kind == "hashed"]
    if len(hashed) > 1:
        raise CommandError(
            31303,
            f"A maximum of one index field is allowed to be hashed but found {len(hashed)} for 'key'"
            f" {show_document(key)}",
        )


def _check_flat(document: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    if list(key.values()).count("2d") > 1:
        raise CommandError(16800, "can't have 2 geo fields")
    if not 1 <= exact(document.get("bits", _MOST_BITS)) <= _MOST_BITS:
        raise CommandError(ErrorCode.INVALID_OPTIONS, f"bits for hash must be > 0 and <= {_MOST_BITS}")
    if exact(document.get("min", -180.0)) >= exact(document.get("max", 180.0)):
        raise CommandError(ErrorCode.INVALID_OPTIONS, "region for hash must be valid and have positive area")
    if next(iter(key.values())) != "2d":
        raise CommandError(16801, "2d has to be first in index")


def _check_sphere(document: Mapping[str, Any], _key: Mapping[str, Any]) -> None:
    version = document.get("2dsphereIndexVersion", 3)
    if version not in (1, 2, 3):
        raise CommandError(
            ErrorCode.CANNOT_CREATE_INDEX,
            f"unsupported geo index version {{ 2dsphereIndexVersion : {show(version)} }}, only support"
            " versions: [1,2,3]",
        )


def _check_text(document: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    kinds = ["text" if kind == "text" else "other" for name, kind in key.items() if name != "_ftsx"]
    first, last = kinds.index("text"), len(kinds) - kinds[::-1].index("text")
    if "other" in kinds[first:last]:
        raise _refused(document, "'text' fields in index must all be adjacent")
    weights = document.get("weights", {})
    if not isinstance(weights, dict):
        shape = type_name(weights) in {"string", "array"}  # code is a text in Python, and not in BSON
        code = ErrorCode.CANNOT_CREATE_INDEX if shape else ErrorCode.TYPE_MISMATCH
        raise _refused(document, "weights of a text index are an object", code)
    for weight in weights.values():
        if not is_number(weight):
            raise _refused(document, "weight for text index needs numeric type")
        if not 0 < float(str(weight)) < _MAX_WEIGHT:
            raise _refused(
                document,
                f"text index weight must be in the exclusive interval (0,{_MAX_WEIGHT}) but found:"
                f" {show(weight)}",
            )
    if document.get("default_language", "english").lower() not in _LANGUAGES:
        raise _refused(document, "default_language is not valid")
    override = document.get("language_override", "language")
    if not override or override.startswith("$") or "." in override:
        raise _refused(document, "language_override is not valid")
    if document.get("textIndexVersion", 3) not in (1, 2, 3):
        raise _refused(document, f"bad textIndexVersion: {show(document['textIndexVersion'])}")


_CHECKS: Final[dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], None]]] = {
    "hashed": _check_hashed,
    "2d": _check_flat,
    "2dsphere": _check_sphere,
    "text": _check_text,
}


def _as_text_index(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification of a text index as it is kept: its fields as weights, and one key for all."""
    key: dict[str, Any] = {}
    wanted = shown.get("weights", {})
    weights = dict(wanted)
    for name, kind in shown["key"].items():
        if kind == "text":
            key |= {"_fts": "text", "_ftsx": 1}
            if name != "_fts":
                weights.setdefault(name, 1)
        elif name != "_ftsx":
            key[name] = kind
    own = ("weights", "default_language", "language_override", "textIndexVersion")
    kept = {name: value for name, value in shown.items() if name not in own}
    return {
        **kept,
        "key": key,
        "weights": dict(sorted(weights.items())),
        "default_language": shown.get("default_language", "english"),
        "language_override": shown.get("language_override", "language"),
        "textIndexVersion": shown.get("textIndexVersion", 3),
    }


def _collation(document: Mapping[str, Any], collection: Collection | None) -> Mapping[str, Any] | None:
    if "collation" in document:
        wanted = document["collation"]
        if not wanted:
            reason = "The field 'collation' cannot be an empty object."
            raise _refused(document, reason, ErrorCode.BAD_VALUE)
        strength = wanted.get("strength", 1)
        if is_number(strength) and exact(strength) == 0:
            reason = f"Field 'strength' must be an integer 1 through 5. Got: {show(strength)}"
            raise _refused(document, reason, ErrorCode.BAD_VALUE)
        found: Mapping[str, Any] | None = complete(wanted)
    else:
        found = collection.collation if collection is not None else None
    kinds = {kind for kind in document["key"].values() if type(kind) is str} & {"text", "2d"}
    if found and kinds:
        raise CommandError(
            ErrorCode.CANNOT_CREATE_INDEX,
            f"Index type '{kinds.pop()}' does not support collation: {show_document(found)}",
        )
    return found


def _check_owner(document: Mapping[str, Any], collection: Collection | None) -> None:
    if collection is not None and collection.kind == "timeseries":
        _check_measurements(document, collection.options["timeseries"])
    elif document.get("clustered") and not is_id_key(document["key"]):
        raise _refused(document, "Only a collection's own key is clustered", ErrorCode.INVALID_OPTIONS)


def _check_measurements(document: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse an index that a time series cannot have, by its options.

    Raises `CommandError`: 67 for a kind of index, 72 for an option, 85 for a collation with a filter,
    7246201 for a wildcard.
    """
    key, meta = document["key"], options.get("metaField")
    filtered = document.get("partialFilterExpression")
    measured = [name for name in key if name != options["timeField"] and name.split(".")[0] != meta]
    kinds = {key[name] for name in measured if type(key[name]) is str}
    if is_wildcard(key):
        raise CommandError(_MANY_WILDCARDS, "A time-series collection cannot have a wildcard index")
    if kinds & {"hashed", "2d"}:
        raise _refused(document, f"Measurements cannot have an index of type {min(kinds)}")
    if "text" in key.values():
        raise _refused(document, "Text indexes are not supported on time-series", ErrorCode.INVALID_OPTIONS)
    if document.get("unique") or (document.get("sparse") and measured):
        reason = "Unique indexes, and sparse ones of measurements, are not supported on time-series"
        raise _refused(document, reason, ErrorCode.INVALID_OPTIONS)
    if "expireAfterSeconds" in document and (
        not filtered or any(name.split(".")[0] != meta for name in filtered)
    ):
        reason = "A TTL index of a time series needs a partialFilterExpression on the metaField alone"
        raise _refused(document, reason, ErrorCode.INVALID_OPTIONS)
    if document.get("collation") and filtered:
        reason = "A time series takes no collation with a partialFilterExpression"
        raise _refused(document, reason, ErrorCode.INDEX_OPTIONS_CONFLICT)


def check_hideable(ns: Namespace, key: Mapping[str, Any], *, hidden: bool = True) -> None:
    """Refuse to hide the index of `_id`, or one of a collection of the system. Raises `CommandError` 2."""
    if hidden and is_id_key(key):
        raise CommandError(ErrorCode.BAD_VALUE, "can't hide _id index")
    if ns.collection.startswith("system."):
        raise CommandError(ErrorCode.BAD_VALUE, f"Can't hide an index on the system collection {ns}")


def check_beside(collection: Collection, spec: IndexSpec) -> None:
    """Refuse a new index that its collection cannot have beside the others. Raises `CommandError` 67 or 2."""
    if spec.document.get("hidden"):
        check_hideable(collection.ns, spec.key)
    if len(collection.indexes) >= _MAX_INDEXES:
        raise CommandError(
            ErrorCode.CANNOT_CREATE_INDEX,
            f"add index fails, too many indexes for {collection.ns} key:{show_document(spec.key)}",
        )
    if "text" in spec.key.values():
        for other in collection.indexes.values():
            if "text" in other.key.values():
                raise CommandError(
                    ErrorCode.CANNOT_CREATE_INDEX,
                    f'only one text index per collection allowed, found existing text index "{other.name}"',
                )
    if "expireAfterSeconds" in spec.document and collection.is_capped:
        raise CommandError(ErrorCode.CANNOT_CREATE_INDEX, "Cannot create TTL index on a capped collection")


# Filters that a partial index may have (`partialFilterExpression`).
#
# An index can only promise to hold a document if its filter is a conjunction of conditions that a planner can
# compare with a query's. Operators are therefore named one by one, and an unknown one is refused with 67 and
# the expression tree in a server's form.

_ALLOWED: Final = frozenset({
    "$eq", "$gt", "$gte", "$lt", "$lte", "$type", "$in", "$geoWithin", "$geoIntersects", "$options",
})  # fmt: skip
_TREES: Final = ("$and", "$or")
_BANNED: Final[dict[str, int]] = {
    "$expr": ErrorCode.QUERY_FEATURE_NOT_ALLOWED,
    "$where": ErrorCode.BAD_VALUE,
    "$text": ErrorCode.BAD_VALUE,
    "$near": ErrorCode.BAD_VALUE,
    "$nearSphere": ErrorCode.BAD_VALUE,
}


def check_partial_filter(wanted: Mapping[str, Any]) -> None:
    """Refuse a filter that a partial index cannot have.

    Raises `CommandError`: 67 for an operator that it does not know, and what a query fails with.
    """
    _check_banned(wanted)
    compile_filter(wanted)
    _check_condition(wanted)


def _check_banned(value: Any) -> None:
    if isinstance(value, dict):
        for name, inside in value.items():
            if name in _BANNED:
                raise CommandError(_BANNED[name], f"{name} is not allowed in this context")
            _check_banned(inside)
    elif isinstance(value, list):
        for inside in value:
            _check_banned(inside)


def _check_condition(wanted: Mapping[str, Any]) -> None:
    for path, condition in wanted.items():
        if path in _TREES:
            for branch in condition:
                _check_condition(branch)
        elif path.startswith("$"):
            raise _unsupported(f"{path}\n")
        elif is_operators(condition):
            for name, value in condition.items():
                _check_operator(path, name, value)
        elif isinstance(condition, Regex):
            raise _unsupported(f"{path} regex {show(condition)}\n")


def _check_operator(path: str, name: str, value: Any) -> None:
    if name == "$all":
        # It stands for its values as conditions of their own: none of them matches no document.
        for each in value or [Regex("")]:
            if isinstance(each, Regex) or is_operators(each):
                raise _unsupported(f"{path} {name} {show(value)}\n")
        return
    if name in _ALLOWED or (name == "$exists" and value):
        return
    if name == "$exists":
        raise _unsupported(f"$not\n    {path} exists\n")
    if name in {"$ne", "$nin"}:
        raise _unsupported(f"$not\n    {path} {'$eq' if name == '$ne' else '$in'} {show(value)}\n")
    raise _unsupported(f"{path} {name} {show(value)}\n")


def _unsupported(tree: str) -> CommandError:
    return CommandError(ErrorCode.CANNOT_CREATE_INDEX, f"Expression not supported in partial index: {tree}")
