"""JavaScript by QuickJS, from the extra `javascript`: the library's only door.

A runtime runs no callback of ours and never waits: a script that sleeps says afterwards how long, and its
clock shows as much. CPU time and memory are bounded.

The library lets other threads run while a script does, so a call that may be long is made beside the event
loop: the first of a runtime, one that gets much, and what follows a long one. A short one takes longer to be
handed over than to be made.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.storage.scripts.javascript_values import pack, unpack
from fakeserver.storage.values.stored import Stored
from fakeserver.waiting.beside import beside, library_beside
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

CPU_SECONDS: Final = 0.25
"""The CPU time that one call may take."""

_BESIDE_SECONDS: Final = 2 * CPU_SECONDS
"""The same for a call beside the event loop, whose CPU time counts as well."""

TOTAL_SECONDS: Final = 2.0
"""The wall-clock time that all calls of one runtime may take together."""

MEMORY_BYTES: Final = 128 * 1024 * 1024
"""The memory that the values of one runtime may take; a server's default is 100 MB."""

_STACK_BYTES: Final = 512 * 1024

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
            if "interrupted" in message:
                raise RunawayError from None
            raise failed(message) from None
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
