"""The fields a command takes, declared, and their validation in a server's words.

A server declares its commands in an interface definition language and generates the parsers; we declare the
same facts as data and interpret them. Texts and codes are those that a client sees.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_EVEN
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import bson
from bson import (
    Binary,
    Code,
    CodecOptions,
    DatetimeConversion,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)

from fakeserver.errors import CommandError
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


OUT_OF_RANGE_BEFORE_80: Final = 51024
"""The code of a number out of its range until 7.0; later ones say 2 BadValue."""
_MONGOCRYPTD_FIELD: Final = 4662500
_MANY: Final = 1000
"""The longest array that is checked without a yield point."""

GENERIC: Final = frozenset(
    {
        *("$db", "lsid", "txnNumber", "autocommit", "startTransaction", "stmtId", "stmtIds", "coordinator"),
        *("txnRetryCounter", "$clusterTime", "$configTime", "$topologyTime", "readConcern", "writeConcern"),
        *("$readPreference", "$queryOptions", "maxTimeMS", "maxTimeMSOpOnly", "comment", "help", "rawData"),
        *("apiVersion", "apiStrict", "apiDeprecationErrors", "mayBypassWriteBlocking", "clientOperationKey"),
        *("databaseVersion", "shardVersion", "versionContext", "$audit", "$client", "$configServerState"),
        *("allowImplicitCollectionCreation", "$oplogQueryData", "$replData", "tracking_info", "$traceCtx"),
    }
)
"""Arguments that every command accepts; the pipeline's stages look at them, not the commands."""

SECRETS: Final = frozenset({"pwd", "payload", "key", "digest", "speculativeAuthenticate"})
"""Fields of commands and replies that are shown nowhere."""

_LONG_MAX: Final = 2**63 - 1


class _Unknown:
    """The type of `UNKNOWN`."""


UNKNOWN: Final = _Unknown()
"""Stands for the value of a field that is not declared."""

_TYPE_NAMES: Final[Mapping[type, str]] = {
    bool: "bool",
    int: "int",
    Int64: "long",
    float: "double",
    Decimal128: "decimal",
    str: "string",
    dict: "object",
    list: "array",
    bytes: "binData",
    Binary: "binData",
    datetime: "date",
    ObjectId: "objectId",
    Timestamp: "timestamp",
    Regex: "regex",
    MinKey: "minKey",
    MaxKey: "maxKey",
    DatetimeMS: "date",
    Code: "javascript",
    type(None): "null",
}

NUMBERS: Final = ("long", "int", "decimal", "double")

_EXPECTED: Final[Mapping[str, tuple[str, ...]]] = {
    "int": NUMBERS,
    "long": NUMBERS,
    "number": NUMBERS,
    "bool": ("bool", "long", "int", "decimal", "double"),
    "int64": ("long",),
    "strictBool": ("bool",),
    "hint": ("string", "object"),
}
"""BSON types that a lenient kind admits; another kind admits the type of its own name."""


class FieldError(CommandError):
    """A field is not declared, or its value is of the wrong type.

    `names` is its path below the command, `value` what it holds (`UNKNOWN` for a field that is not
    declared), `expected` are the BSON types that it admits.
    """

    def __init__(
        self, code: int, message: str, *, path: str, value: Any = UNKNOWN, expected: Sequence[str] = ()
    ) -> None:
        super().__init__(code, message)
        self.names = path.split(".")[1:]
        self.value = value
        self.expected = expected


Words: TypeAlias = "Callable[[FieldError, Mapping[str, Any]], CommandError]"
"""The wording of a release for the refusal of a field."""


def type_name(value: Any) -> str:
    """Return the BSON type of `value` as a server's messages name it, such as `string` or `int`."""
    name = _TYPE_NAMES.get(type(value))
    if name is not None:
        return name
    return next((name for cls, name in _TYPE_NAMES.items() if isinstance(value, cls)), type(value).__name__)


def whole(value: Any) -> int:
    """Return a BSON number as a bounded 64-bit integer, as a server reads a `safeInt`.

    A double is truncated, a decimal rounded: half goes to the even neighbour.
    """
    if isinstance(value, Decimal128):
        value = value.to_decimal()
        if value.is_finite():
            value = value.to_integral_value(ROUND_HALF_EVEN)
    try:
        return max(-_LONG_MAX - 1, min(_LONG_MAX, int(value)))
    except OverflowError:  # an infinity
        return _LONG_MAX if value > 0 else -_LONG_MAX - 1
    except ValueError:  # not a number
        return 0


def truth(value: Any) -> bool:
    """Return what a value is where a bool is wanted: zero and null are false, all else is true."""
    if isinstance(value, Decimal128):
        return bool(value.to_decimal())
    return bool(value) if value is None or isinstance(value, bool | int | float) else True


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a command.

    `kind` is a BSON type name or several joined by `|`, or one of the lenient kinds: `int` and `long` (any
    number, handed on as an integer), `number` (any number, as it is), `bool` (a number will do, handed on as
    a bool), `any`; `int64` admits nothing but a 64-bit integer, `strictBool` nothing but a bool. `hint` names
    an index, and is refused in words of its own (9). `of` describes an object, or the elements of an array:
    `Fields`, or a type name. Null is the same as no field, also as an element, unless `nullable` is False.
    """

    name: str
    kind: str = "any"
    required: bool = False
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    of: Fields | str | None = None
    nullable: bool = True
    sparse: bool = False
    """Whether nulls among the objects of an array are passed over, as they are among other elements."""
    out_of_range: int = ErrorCode.BAD_VALUE
    """The code of a number that is not in the range."""
    expected: tuple[str, ...] = field(init=False)
    plain: frozenset[type] = field(init=False)
    """Python types whose values pass as they are, which is seen before anything else."""
    convert: Callable[[Any], Any] | None = field(init=False)

    def __post_init__(self) -> None:
        """Work out once what is asked per command: the BSON types admitted and the conversion."""
        kinds = self.kind.split("|")
        types = tuple(name for kind in kinds for name in _EXPECTED.get(kind, (kind,)))
        object.__setattr__(self, "expected", types)
        converters = {"int": whole, "long": whole, "bool": truth}
        object.__setattr__(self, "convert", converters.get(self.kind))
        if self.kind == "hint":
            object.__setattr__(self, "nullable", False)
        plain: set[type] = set()
        if self.minimum is None and self.maximum is None and not self.choices and self.of is None:
            if self.convert is not None:
                plain = {bool} if self.convert is truth else {int}
            else:
                plain = {cls for cls, name in _TYPE_NAMES.items() if name in self.expected}
        object.__setattr__(self, "plain", frozenset(plain))

    def check(self, value: Any, path: str) -> Any:
        """Return `value` as the handler gets it. Raises `CommandError` naming `path`."""
        if self.kind != "any" and type_name(value) not in self.expected:
            raise _no_hint(path, value) if self.kind == "hint" else _wrong_type(path, value, self.expected)
        if self.convert is not None:
            value = self.convert(value)
        if self.minimum is not None or self.maximum is not None:
            number = float(value.to_decimal()) if isinstance(value, Decimal128) else value
            if self.minimum is not None and not number >= self.minimum:  # what is no number is in no range
                raise self._out_of_range(f">= {self.minimum}", value)
            if self.maximum is not None and not number <= self.maximum:
                raise self._out_of_range(f"<= {self.maximum}", value)
        if self.choices and value not in self.choices:
            raise CommandError(
                ErrorCode.BAD_VALUE, f"Enumeration value '{value}' for field '{path}' is not a valid value."
            )
        if self.of is not None:
            self._check_inside(value, path)
        return value

    def _out_of_range(self, bound: str, value: Any) -> CommandError:
        message = f"BSON field '{self.name}' value must be {bound}, actual value '{value}'"
        return CommandError(self.out_of_range, message)

    def _check_inside(self, value: Any, path: str) -> None:
        if isinstance(value, dict):
            if isinstance(self.of, Fields):
                self.of.check(value, path)
            return
        if not isinstance(value, list):
            return
        expected = "object" if isinstance(self.of, Fields) else str(self.of)
        if (expected != "object" or self.sparse) and None in value:
            value[:] = [element for element in value if element is not None]
        elements = enumerate(value)
        for index, element in interruptible(elements) if len(value) > _MANY else elements:
            if type_name(element) != expected:
                raise _wrong_type(f"{path}.{index}", element, (expected,))
            if isinstance(self.of, Fields):
                self.of.check(element, path)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields that a command, or an object inside one, takes.

    `strict` refuses fields that are not declared. `target` says what stands under the command's own name:
    `collection` (a name), `collection|1`, or None where any value will do. A command accepts `generic`
    arguments beside its own, and refuses others in the `words` of its release.
    """

    by_name: Mapping[str, Field]
    strict: bool = True
    target: str | None = None
    generic: frozenset[str] = GENERIC
    words: Words | None = None
    required: tuple[str, ...] = ()
    patterns: Mapping[str, bytes] = field(default_factory=dict)
    """Each name as it stands in BSON: bytes that a body without a repeated field seldom holds twice."""

    @classmethod
    def of(cls, *fields: Field, strict: bool = True, target: str | None = None) -> Fields:
        """Declare fields. Raises `ValueError` for a name declared twice."""
        by_name = {each.name: each for each in fields}
        if len(by_name) != len(fields):
            raise ValueError("a field is declared twice")
        required = tuple(each.name for each in fields if each.required)
        patterns = {name: name.encode() + b"\0" for name in by_name}
        return cls(by_name, strict=strict, target=target, required=required, patterns=patterns)

    def plus(self, *fields: Field) -> Fields:
        """Return the declaration with more fields."""
        return Fields.of(*self.by_name.values(), *fields, strict=self.strict, target=self.target)

    def may_repeat(self, command: Mapping[str, Any], body: bytes) -> bool:
        """Return whether the BSON of a command may hold a declared field twice; False is certain."""
        for name in command:
            pattern = self.patterns.get(name)
            if pattern is not None and body.count(pattern) > 1:
                return True
        return False

    def check_command(self, command: dict[str, Any]) -> None:
        """Validate a whole command, in place: lenient numbers and bools become integers and bools.

        A field that is null counts as absent and is taken out. Raises `CommandError`: 14 wrong type, 40414
        missing, 40415 unknown, 2 bad enumeration value or out of range, 73 bad collection name, 9 no hint.
        """
        try:
            names = iter(command)
            name = next(names)
            if self.target is not None:
                check_target(command[name], str(command.get("$db", "")), allow_one=self.target.endswith("|1"))
            elif name in self.by_name:
                own = self.by_name[name]
                if command[name] is None and own.kind != "any" and own.nullable:
                    raise _missing(f"{name}.{name}")
                command[name] = own.check(command[name], f"{name}.{name}")
            self._check(command, name, list(names), generic=self.generic)
        except FieldError as error:
            if self.words is None:
                raise
            raise self.words(error, command) from None

    def check(self, document: dict[str, Any], path: str) -> None:
        """Validate an object inside a command, in place, as `check_command` does."""
        self._check(document, path, list(document), generic=frozenset())

    def _check(
        self, document: dict[str, Any], path: str, names: Sequence[str], *, generic: frozenset[str]
    ) -> None:
        declared = self.by_name
        for name in names:
            each = declared.get(name)
            if each is None and name in generic:
                each = GENERIC_FIELDS.get(name)
            elif each is None and self.strict:
                raise _unknown_field(f"{path}.{name}", name)
            if each is None:
                continue
            value = document[name]
            if type(value) in each.plain:
                continue
            if value is None and each.kind != "any" and each.nullable:
                del document[name]
                continue
            document[name] = each.check(value, f"{path}.{name}")
        for name in self.required:
            if name not in document:
                raise _missing(f"{path}.{name}")


GENERIC_FIELDS: Final = {
    each.name: each
    for each in (
        Field("stmtId", "int"),
        Field("stmtIds", "array", of="int"),
        Field("autocommit", "strictBool"),
        Field("startTransaction", "strictBool"),
    )
}
"""The arguments of every command whose types no stage asks for."""


def check_target(target: Any, db: str, *, allow_one: bool = False) -> None:
    """Refuse what cannot name a collection of `db`. Raises `CommandError` 73, 2 for a number but 1."""
    if type(target) is str:  # JavaScript code is a `str` too
        if not target or target.startswith(".") or "\0" in target:
            raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{db}.{target}'")
        return
    if allow_one and type_name(target) in NUMBERS:
        if (float(target.to_decimal()) if isinstance(target, Decimal128) else target) == 1:
            return
        raise CommandError(
            ErrorCode.BAD_VALUE,
            "Invalid command format: the 'aggregate' field must specify a collection name or 1",
        )
    raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Collection name has invalid type {type_name(target)}")


def check_inner_db(explained: Mapping[str, Any], db: str) -> None:
    """Refuse to explain a command that names another database. Raises `CommandError` 73, or 14."""
    inner = explained.get("$db", db)
    if type(inner) is not str:
        raise _wrong_type("explain.$db", inner, ("string",))
    if inner != db:
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE,
            f"Mismatched $db in explain command. Expected {db} but got {inner}",
        )


def duplicate_field(path: str) -> CommandError:
    """Return the error for a field that a body holds twice."""
    return CommandError(ErrorCode.IDL_DUPLICATE_FIELD, f"BSON field '{path}' is a duplicate field")


def _wrong_type(path: str, value: Any, expected: Sequence[str]) -> CommandError:
    if len(expected) == 1:
        wanted = f"expected type '{expected[0]}'"
    else:
        # The misplaced quote is the server's.
        wanted = f"expected types '[{', '.join(expected)}']"
    return FieldError(
        ErrorCode.TYPE_MISMATCH,
        f"BSON field '{path}' is the wrong type '{type_name(value)}', {wanted}",
        path=path,
        value=value,
        expected=expected,
    )


def _unknown_field(path: str, name: str) -> CommandError:
    if name == "jsonSchema":
        hint = " This command may be meant for a mongocryptd process."
        return CommandError(_MONGOCRYPTD_FIELD, f"BSON field '{path}' is an unknown field.{hint}")
    return FieldError(ErrorCode.IDL_UNKNOWN_FIELD, f"BSON field '{path}' is an unknown field.", path=path)


def _missing(path: str) -> CommandError:
    return CommandError(ErrorCode.IDL_FAILED_TO_PARSE, f"BSON field '{path}' is missing but a required field")


def _no_hint(path: str, value: Any) -> CommandError:
    return FieldError(
        ErrorCode.FAILED_TO_PARSE,
        "Hint must be a string or an object",
        path=path,
        value=value,
        expected=("string", "object"),
    )


_DOCUMENTS: Final = frozenset({dict})


def are_documents(values: Sequence[Any]) -> bool:
    """Return whether values are surely documents, at a glance."""
    return _DOCUMENTS.issuperset(map(type, values))


def first_argument(command: Mapping[str, Any]) -> Any:
    """Return the value under a command's own name: the collection of most commands."""
    return next(iter(command.values()))


# The checks that are left of a command whose shape is known: names of fields and their types.
#
# A server's parser is generated from the declaration of a command. Here it is worked out for each shape
# that clients send: names and required fields are the shape's own, and most values pass by their type
# alone.


Glance: TypeAlias = "Callable[[Any], bool]"


class Checks(NamedTuple):
    """The checks of commands of one shape."""

    names_target: bool = False
    """The first value is a string that has to name a collection."""
    patterns: tuple[bytes, ...] = ()
    """The declared names as they stand in BSON, of which a body may hold each once."""
    values: tuple[tuple[str, Field, str, Glance | None], ...] = ()
    """Fields whose values are looked at, by their names: each with its path, and with what says at a glance
    that a value passes as it is."""


def _glance(field: Field, kind: type) -> Glance | None:
    if field.kind == "array" and field.of == "object":
        return are_documents if kind is list else None
    least = field.minimum
    if least is None or field.maximum is not None or field.choices:
        return None
    return least.__le__ if kind is int and field.convert is whole else None


def checks_of(fields: Fields, names: Sequence[str], types: Sequence[type]) -> Checks | None:
    """Return what `Fields.check_command` comes to for a shape, None where it has to be asked itself."""
    # Releases with words of their own quote the command, and a field that is null is taken out of it.
    if fields.words is not None or not names:
        return None
    first, values = names[0], []
    if fields.target is not None:
        if types[0] is not str:
            return None
    elif first in fields.by_name:
        values.append((first, fields.by_name[first], types[0]))
    for name, kind in zip(names[1:], types[1:], strict=True):
        each = fields.by_name.get(name)
        if each is None and name in fields.generic:
            each = GENERIC_FIELDS.get(name)
        elif each is None and fields.strict:
            return None
        if each is not None:
            values.append((name, each, kind))
    if type(None) in (kind for _, _, kind in values) or not set(fields.required) <= set(names[1:]):
        return None
    looked_at = [(name, each, kind) for name, each, kind in values if kind not in each.plain]
    return Checks(
        fields.target is not None,
        tuple(fields.patterns[name] for name in names if name in fields.patterns),
        tuple((name, each, f"{first}.{name}", _glance(each, kind)) for name, each, kind in looked_at),
    )


# Fields that stand twice in a document: its bytes show both, what is decoded has the last one alone.


class Noticing(dict[str, Any]):
    """A document that notices a key that it gets twice."""

    repeated: str | None = None
    """The first such key."""
    earlier: tuple[tuple[str, Any], ...] = ()
    """What stood there before, in order."""

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self:
            if self.repeated is None:
                self.repeated = key
            self.earlier = (*self.earlier, (key, self[key]))
        super().__setitem__(key, value)


_NOTICING: Final = CodecOptions(document_class=Noticing, datetime_conversion=DatetimeConversion.DATETIME_AUTO)


def noticing(body: bytes) -> Noticing:
    """Decode a document, with all documents within it, as such."""
    return bson.decode(body, codec_options=_NOTICING)
