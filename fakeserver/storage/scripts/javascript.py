"""JavaScript by QuickJS, from the extra `javascript`: the library's only door.

A runtime runs no callback of ours and never waits: a script that sleeps says afterwards how long, and its
clock shows as much. CPU time and memory are bounded.

The library lets other threads run while a script does, so a call that may be long is made beside the event
loop: the first of a runtime, one that gets much, and what follows a long one. A short one takes longer to be
handed over than to be made.

Values on their way to a script and back are JSON, with an object of one field for types that JSON lacks. The
other end is `javascript_prelude.js`. Integers become numbers, and numbers come back as doubles, but for those
that a script hands back where it found them.
"""

from __future__ import annotations

import base64
import datetime as dt
import functools
import importlib.util
import json
import math
import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)

from fakeserver.errors import CommandError
from fakeserver.storage.values.dates import date_of
from fakeserver.storage.values.stored import Stored
from fakeserver.storage.values.types import MISSING, milliseconds
from fakeserver.waiting.beside import beside, library_beside
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable


TAG: Final = "$:"
"""The field of an object that stands for a value which JSON lacks; the prelude has the same constant."""

_FLAGS: Final = (("i", re.IGNORECASE), ("m", re.MULTILINE), ("s", re.DOTALL))


def pack(value: Any) -> str:
    """Return a value as the prelude reads it."""
    return json.dumps(_packed(value), separators=(",", ":"))


def _tag(kind: str, payload: Any) -> dict[str, Any]:
    return {TAG: [kind, payload]}


def _packed(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is dict:
        # A document with a field of the tag's own name goes as a list of pairs: no client can forge a tag.
        fields = {name: _packed(item) for name, item in value.items()}
        return _tag("doc", list(fields.items())) if TAG in fields else fields
    if kind is list:
        return [_packed(item) for item in value]
    packer = _PACKERS.get(kind)
    if packer is not None:
        return packer(value)
    if isinstance(value, dict):
        return _packed(dict(value))
    return _tag("undefined", 0) if value is MISSING else str(value)


def _packed_float(value: float) -> Any:
    # What JSON cannot say: infinities and NaN, and the sign of zero, which would get lost.
    if math.isfinite(value) and not (value == 0 and math.copysign(1, value) < 0):
        return value
    shown = "NaN" if math.isnan(value) else "-0" if value == 0 else "Infinity" if value > 0 else "-Infinity"
    return _tag("number", shown)


def _packed_regex(value: Any) -> Any:
    flags = "".join(letter for letter, flag in _FLAGS if value.flags & flag)
    return _tag("regex", [value.pattern, flags])


def _packed_binary(value: bytes) -> Any:
    subtype = value.subtype if isinstance(value, Binary) else 0
    return _tag("BinData", [subtype, base64.b64encode(value).decode()])


def _packed_code(value: Code) -> Any:
    return _tag("Code", [str(value), None if value.scope is None else _packed(dict(value.scope))])


_PACKERS: Final[dict[type, Callable[[Any], Any]]] = {
    int: lambda value: _tag("int", value),
    float: _packed_float,
    Int64: lambda value: _tag("NumberLong", str(int(value))),
    Decimal128: lambda value: _tag("NumberDecimal", str(value)),
    ObjectId: lambda value: _tag("ObjectId", str(value)),
    dt.datetime: lambda value: _tag("date", milliseconds(value)),
    DatetimeMS: lambda value: _tag("date", milliseconds(value)),
    Timestamp: lambda value: _tag("Timestamp", [value.time, value.inc]),
    bytes: _packed_binary,
    Binary: _packed_binary,
    Regex: _packed_regex,
    re.Pattern: _packed_regex,
    MinKey: lambda _value: _tag("MinKey", 0),
    MaxKey: lambda _value: _tag("MaxKey", 0),
    Code: _packed_code,
    DBRef: lambda value: _tag("DBRef", [value.collection, _packed(value.id), value.database]),
}


def unpack(value: Any) -> Any:
    """Return what a script gave back, from JSON whose numbers were read as floats. It raises nothing.

    A script may make any of the types with any contents, so each reader makes a value of whatever it finds:
    bad base64 is no bytes, a bad decimal is NaN, a long wraps around.
    """
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if isinstance(value, str):
        return _text(value)
    if not isinstance(value, dict):
        return value
    if TAG in value:
        kind, payload = value[TAG]
        return _UNPACKERS[kind](payload)
    return {_name(name): unpack(item) for name, item in value.items()}


def _text(value: str) -> str:
    """Return a string without halves of characters, which BSON cannot hold."""
    return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _name(value: str) -> str:
    """Return a field's name without the zero bytes that would end it."""
    return _text(value).replace("\0", "")


def _unpacked_binary(payload: list[Any]) -> Any:
    subtype, text = int(payload[0]), payload[1]
    try:
        data = base64.b64decode(text)
    except ValueError:
        data = b""
    return data if subtype == 0 else Binary(data, subtype & 0xFF)


def _unpacked_code(payload: list[Any]) -> Code:
    text, scope = payload
    return Code(text) if scope is None else Code(text, unpack(scope))


def _unpacked_decimal(text: str) -> Any:
    try:
        return Decimal128(text)
    except (ValueError, ArithmeticError):
        return Decimal128("NaN")


def _unpacked_timestamp(payload: list[Any]) -> Timestamp:
    seconds, increment = (int(part or 0) % (1 << 32) for part in payload)
    return Timestamp(seconds, increment)


_UNPACKERS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": int,
    "number": float,
    "NumberInt": lambda text: int(float(text)),
    "NumberLong": lambda text: Int64(((int(text) + (1 << 63)) % (1 << 64)) - (1 << 63)),
    "NumberDecimal": _unpacked_decimal,
    "ObjectId": ObjectId,
    "date": lambda total: None if total is None else date_of(int(total)),
    "Timestamp": _unpacked_timestamp,
    "BinData": _unpacked_binary,
    "regex": lambda payload: Regex(payload[0], "".join(set(payload[1]) & set("imsx"))),
    "MinKey": lambda _payload: MinKey(),
    "MaxKey": lambda _payload: MaxKey(),
    "Code": _unpacked_code,
    "undefined": lambda _payload: None,
    "doc": lambda pairs: {_name(name): unpack(item) for name, item in pairs},
}


CPU_SECONDS: Final = 0.25
"""The CPU time that one call may take."""

_BESIDE_SECONDS: Final = 2 * CPU_SECONDS
"""The same for a call beside the event loop, whose CPU time counts as well."""

TOTAL_SECONDS: Final = 2.0
"""The wall-clock time that all calls of one runtime may take together."""

MEMORY_BYTES: Final = 128 * 1024 * 1024
"""The memory that the values of one runtime may take; a server's default is 100 MB."""

_STACK_BYTES: Final = 512 * 1024
"""Bytes of the C stack: an endless recursion is an error of the script, before it could end the process."""

_LONG_MILLISECONDS: Final = 5.0
"""The duration of a call after which the next one is made beside the event loop."""

_MANY: Final = 1_000
"""The number of values, and of bytes by the hundred, that are packed within a millisecond or two."""


class RunawayError(Exception):
    """A script has taken more time than it may."""


@functools.cache
def available() -> bool:
    """Return whether the extra is installed."""
    return importlib.util.find_spec("quickjs") is not None


@functools.cache
def _prelude() -> str:
    return resources.files("fakeserver.storage.scripts").joinpath("javascript_prelude.js").read_text("utf-8")


@dataclass(slots=True)
class ScriptReply:
    """The outcome of a call: its value, and the pairs that it emitted."""

    value: Any
    emitted: list[tuple[Any, Any]]


class Runtime:
    """One JavaScript world, for the scripts of one command.

    `epoch` is the time that its clock shows at first (milliseconds since 1970), `longest` how long its
    scripts may sleep (milliseconds), `seed` that of `Math.random`. `slept` is how long they did, in
    milliseconds.
    """

    def __init__(self, *, epoch: float, longest: float, seed: int) -> None:
        library = library_beside("quickjs")
        self._failure: type[Exception] = library.JSException
        self._context: Any = library.Context()
        self._context.set_memory_limit(MEMORY_BYTES)
        self._context.set_max_stack_size(_STACK_BYTES)
        # The prelude's functions are taken out and the global removed: scripts see a server's globals only.
        self._context.set("host", self._context.eval(_prelude()))
        names = ("arrange", "set", "compile", "call", "where")
        self._host = {name: self._context.eval(f"host.{name}") for name in names}
        self._context.eval("delete globalThis.host")
        self._host["arrange"](json.dumps({"epoch": epoch, "limit": longest, "seed": seed}))
        self._spent = 0.0
        self._is_long = True
        """The next call may be a long one."""
        self.slept = 0.0

    def define(self, name: str, value: Any) -> None:
        """Set a global variable. Raises `CommandError` 139 for a value that scripts cannot have."""
        try:
            self._host["set"](name, pack(value))
        except self._failure as error:
            raise failed(str(error).partition("\n")[0]) from None

    def compile(self, code: str) -> int:
        """Return a script's number. Raises `CommandError` 139 for one that cannot be read."""
        return int(self._ask("compile", lambda: (code,), elsewhere=False).value)

    def where(self, number: int, document: Any) -> bool:
        """Return whether a script holds for a document, which is its `this` and its `obj`."""
        reply = self._ask(
            "where", lambda: (number, pack(document)), elsewhere=self._is_long or _is_large(document)
        )
        return bool(reply.value)

    def call(self, number: int, this: Any, arguments: list[Any]) -> ScriptReply:
        """Call a script. Raises `CommandError` 139 for what it throws, `RunawayError` if it does not end."""
        return self._ask(
            "call",
            lambda: (number, pack(this), pack(arguments), False),
            elsewhere=self._is_long or _is_large(this) or _is_large(arguments),
        )

    # Arguments are packed inside `ask`, so that those of a call beside the event loop are packed there too.
    def _ask(self, way: str, packed: Callable[[], tuple[Any, ...]], *, elsewhere: bool) -> ScriptReply:
        left = TOTAL_SECONDS - self._spent
        if left <= 0:
            raise RunawayError
        self._context.set_time_limit(min(left, _BESIDE_SECONDS if elsewhere else CPU_SECONDS))

        def ask() -> dict[str, Any]:
            answer: dict[str, Any] = json.loads(self._host[way](*packed()), parse_int=float)
            return answer

        try:
            answer = beside(ask) if elsewhere else ask()
        except self._failure as error:
            message = str(error).partition("\n")[0]
            # QuickJS has no class for what its time limit raises: "InternalError: interrupted".
            if "interrupted" in message:
                raise RunawayError from None
            raise failed(message) from None
        # A compilation says nothing of how long the script will run.
        if way != "compile":
            self._is_long = answer["spent"] - 1000 * self._spent > _LONG_MILLISECONDS
        self._spent, self.slept = answer["spent"] / 1000, answer["slept"]
        if "error" in answer:
            raise failed(answer["error"])
        return ScriptReply(
            unpack(answer.get("value")), [(unpack(key), unpack(value)) for key, value in answer["emitted"]]
        )


def _is_large(value: Any) -> bool:
    """Return whether a value takes more than a moment to be packed."""
    if isinstance(value, Stored):
        return len(value.raw) > 100 * _MANY
    if isinstance(value, str | bytes):
        return len(value) > 100 * _MANY
    if isinstance(value, dict):
        return len(value) > _MANY or any(map(_is_large, value.values()))
    return isinstance(value, list) and (len(value) > _MANY or any(map(_is_large, value)))


def failed(message: str) -> CommandError:
    """Return the error of a script that threw something."""
    return CommandError(ErrorCode.JS_INTERPRETER_FAILURE, message)


# Scripts that do nothing but wait, recognised by their text, so that they need no JavaScript.
#
# By such a `$where` drivers' test suites have a server be slow: `sleep(1000) || true`, or a function that
# sleeps, or loops until a date has come, and then returns true.
#
# Spaces are removed first (`_bare`), so the patterns have none. A body is read one statement at a time; the
# first that is neither a wait nor a verdict makes the whole script unknown, which is then refused: better
# no answer than that of a script which was read in part.


_NUMBER: Final = r"\d+(?:\.\d*)?(?:[eE]\d+)?"
_SUM: Final = rf"{_NUMBER}(?:[*+]{_NUMBER})*"
_NOW: Final = r"(?:\(?newDate\(?\)?\)?(?:\.(?:getTime|valueOf)\(\))?|Date\.now\(\))"
_DECLARE: Final = r"(?:var|let|const)?"

_FUNCTION: Final = re.compile(
    r"\(?\s*(?:function\s*\w*\s*\(\s*\w*\s*\)|\(\s*\w*\s*\)\s*=>)\s*\{(.*)\}\s*;?\s*\)?\s*;?", re.DOTALL
)
_ARROW: Final = re.compile(r"\(\s*\)\s*=>\s*([^{].*)", re.DOTALL)
_SPACES: Final = re.compile(r"\s+")
_SLEEP: Final = re.compile(rf"sleep\(({_SUM})\)")
_VERDICT: Final = re.compile(r"return(true|false|1|0|)")
_EXPRESSION: Final = re.compile(rf"(return)?\(*sleep\(({_SUM})\)\)*(?:(\|\||&&|,)\(*(true|false|1|0)\)*)?\)*")
_BUSY: Final = (
    re.compile(
        rf"{_DECLARE}(?P<until>\w+)=newDate\({_NOW}\+(?P<sum>{_SUM})\);"
        rf"while\((?:(?P=until)>=?{_NOW}|{_NOW}<=?(?P=until))\)(?:\{{;*\}}|;)"
    ),
    re.compile(
        rf"{_DECLARE}(?P<until>\w+)={_NOW}\+(?P<sum>{_SUM});"
        rf"while\((?:(?P=until)>=?{_NOW}|{_NOW}<=?(?P=until))\)(?:\{{;*\}}|;)"
    ),
    re.compile(
        rf"{_DECLARE}(?P<start>\w+)={_NOW};while\(\(?{_NOW}-(?P=start)\)?<=?(?P<sum>{_SUM})\)(?:\{{;*\}}|;)"
    ),
    re.compile(
        rf"{_DECLARE}(?P<start>\w+)={_NOW};while\({_NOW}<=?\(?(?P=start)\+(?P<sum>{_SUM})\)?\)(?:\{{;*\}}|;)"
    ),
)


class Waiting(NamedTuple):
    """A script that waits for some milliseconds, and then holds or not."""

    milliseconds: float
    holds: bool


def recognise(code: str) -> Waiting | None:
    """Return what a script comes to that only waits, None for any other."""
    found = _FUNCTION.fullmatch(code.strip())
    if found is not None:
        return _body(_bare(found[1]))
    arrow = _ARROW.fullmatch(code.strip())
    text = _bare(arrow[1] if arrow is not None else code)
    return _expression(text.rstrip(";")) or (_body(text) if "return" in text else None)


def _bare(text: str) -> str:
    """Return code without the spaces that mean nothing; `new Date` and `return true` lose theirs too."""
    return _SPACES.sub("", text)


def _expression(text: str) -> Waiting | None:
    found = _EXPRESSION.fullmatch(text)
    # The pattern lets any number of parentheses stand anywhere; those that do not pair are no JavaScript.
    if found is None or text.count("(") != text.count(")"):
        return None
    _returns, amount, operator, second = found.groups()
    # sleep() returns undefined, which is false.
    return Waiting(_amount(amount), operator in {"||", ","} and second in {"true", "1"})


def _body(text: str) -> Waiting | None:
    """Read the statements of a function: waits, then perhaps a verdict."""
    waited = 0.0
    while text:
        step = _step(text)
        if step is None:
            break
        milliseconds, text = step
        waited += milliseconds
    verdict = text.rstrip(";")
    # A function without a return gives undefined, which is false.
    if not verdict:
        return Waiting(waited, holds=False)
    plain = _VERDICT.fullmatch(verdict)
    if plain is not None:
        return Waiting(waited, plain[1] in {"true", "1"})
    last = _expression(verdict) if verdict.startswith("return") else None
    return None if last is None else Waiting(waited + last.milliseconds, last.holds)


def _step(text: str) -> tuple[float, str] | None:
    """Return how long the first statement waits, and the text behind it; None if it is no wait."""
    if text.startswith(";"):
        return 0.0, text[1:]
    for pattern in (_SLEEP, *_BUSY):
        found = pattern.match(text)
        if found is not None:
            rest = text[found.end() :]
            return _amount(found[1] if pattern is _SLEEP else found["sum"]), rest
    return None


def _amount(text: str) -> float:
    """Return a sum of products of numbers, in milliseconds."""
    total = 0.0
    for term in text.split("+"):
        product = 1.0
        for factor in term.split("*"):
            product *= float(factor)
        total += product
    return total
