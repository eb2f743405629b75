"""The declaration of a server parameter: its type, its bounds, and the parsing of its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.idl.fields import truth, type_name, whole
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.idl.fields import Fields
    from fakeserver.profile import Profile

Kind: TypeAlias = Literal["bool", "int", "long", "double", "string", "strings", "document"]

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_NUMBERS: Final = frozenset({"int", "long", "double", "decimal", "bool"})
_TEXTS: Final = frozenset({"string", "strings"})
_TYPED: Final = frozenset({"string", "document"})
"""The kinds of which another type is refused as one (14); other kinds take it for a bad value (2)."""
_LARGEST: Final[Mapping[Kind, int]] = {"int": INT32_MAX, "long": INT64_MAX}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One server parameter. `default` may depend on the release; `since` is the wire version that has it.

    `minimum` and `maximum` are bounds that a value may have, `above` one that it may not; `longest` is the
    most bytes of a text. `struct` is the
    declaration of a document's fields under the name that its complaints give it; `refuses` returns what is
    wrong with a value besides, and `merge` what a value makes of the one before. `alias_of` names the
    parameter that this one is an older name of. A mongos has those that are `on_mongos`.
    """

    name: str
    kind: Kind
    default: Any
    at_startup: bool = True
    at_runtime: bool = True
    minimum: float | None = None
    maximum: float | None = None
    longest: int | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()
    struct: tuple[str, Fields] | None = None
    refuses: Callable[[Any], str | None] | None = None
    merge: Callable[[Any, Any], Any] | None = None
    alias_of: str | None = None
    since: int = 0
    on_mongos: bool = True

    def default_of(self, profile: Profile) -> Any:
        """Return the value that nobody set."""
        return self.default(profile) if callable(self.default) else self.default

    def parse(self, value: Any, *, text: bool = False) -> Any:
        """Return `value` as the parameter's type, which `text` may spell, as on a command line.

        Raises `CommandError` 2 BadValue; 14 for what is no text or no document, 15 for a text that is too
        long; for a document 40414 or 40415 too.
        """
        if text and self.kind == "document" and isinstance(value, str):
            value = self._read(value)
        parsed = _PARSERS[self.kind](value) if text else self._set_to(value)
        if parsed is None:
            raise CommandError(
                ErrorCode.TYPE_MISMATCH if self.kind in _TYPED else ErrorCode.BAD_VALUE,
                f"Failed to parse value {value!r} of type {type_name(value)} for parameter {self.name}",
            )
        if self.longest is not None and len(parsed.encode()) > self.longest:
            raise CommandError(
                ErrorCode.OVERFLOW,
                f"Value for parameter {self.name} must be no more than {self.longest} bytes",
            )
        largest = _LARGEST.get(self.kind)
        maximum = largest if self.maximum is None else self.maximum
        # Asked so that "not a number" is within no bounds.
        if self.minimum is not None and not parsed >= self.minimum:
            raise self._out_of_range(parsed, f"greater than or equal to {self.minimum}")
        if self.above is not None and not parsed > self.above:
            raise self._out_of_range(parsed, f"greater than {self.above}")
        if maximum is not None and not parsed <= maximum:
            raise self._out_of_range(parsed, f"less than or equal to {maximum}")
        if self.choices and parsed not in self.choices:
            raise CommandError(
                ErrorCode.BAD_VALUE,
                f"Invalid value for parameter {self.name}: {parsed} is none of {', '.join(self.choices)}",
            )
        if self.struct is not None:
            path, fields = self.struct
            fields.check(parsed, path)
        complaint = None if self.refuses is None else self.refuses(parsed)
        if complaint is not None:
            raise CommandError(ErrorCode.BAD_VALUE, f"Invalid value for parameter {self.name}: {complaint}")
        return parsed

    def _set_to(self, value: Any) -> Any:
        """Return what a command sets, None for another type: anything is a bool, and no text is a number."""
        if self.kind == "bool":
            return truth(value)
        return None if isinstance(value, str) and self.kind not in _TEXTS else _PARSERS[self.kind](value)

    def _read(self, text: str) -> Any:
        """Read a document as a server's command line has it: unquoted names, single quotes (JSON5)."""
        import json5  # noqa: PLC0415 - few servers are started with such a parameter

        try:
            return json5.loads(text)
        except (ValueError, RecursionError) as error:
            where = str(error).removeprefix("<string>:").partition("\n")[0]
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE,
                f"Failed to parse the value of parameter {self.name} as a document: line {where}",
            ) from None

    def _out_of_range(self, value: Any, bound: str) -> CommandError:
        return CommandError(
            ErrorCode.BAD_VALUE, f"Invalid value for parameter {self.name}: {value} is not {bound}"
        )


def _parse_bool(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "1": True, "false": False, "0": False}.get(value)
    return bool(value) if type_name(value) in _NUMBERS else None


def _parse_int(value: Any) -> int | None:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    return whole(value) if type_name(value) in _NUMBERS else None


def _parse_double(value: Any) -> float | None:
    if isinstance(value, str) or type_name(value) in _NUMBERS:
        try:
            return float(str(value))
        except ValueError:
            return None
    return None


def _parse_strings(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [each.strip() for each in value.split(",") if each.strip()]
    return list(value) if isinstance(value, list | tuple) else None


_PARSERS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    "bool": _parse_bool,
    "int": _parse_int,
    "long": _parse_int,
    "double": _parse_double,
    "string": lambda value: value if isinstance(value, str) else None,
    "strings": _parse_strings,
    "document": lambda value: dict(value) if isinstance(value, Mapping) else None,
}
