"""The errors that a command answers with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from mongowire.codes import Category, ErrorCode, code_name, is_in

if TYPE_CHECKING:
    from collections.abc import Mapping


class CommandError(Exception):
    """A command failed: rendered in one place as `{ok: 0, errmsg, code, codeName, …extra}`.

    `extra` holds the error's own fields (`keyPattern`, `violations` …), in the order of the reply.
    """

    executing = False
    """Whether a plan failed while it ran, which a server says ahead of the message; before, it was made."""

    def __init__(self, code: int, message: str, *, extra: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.extra = dict(extra or {})

    @property
    def code_name(self) -> str:
        """The name a server gives the code, `Location<code>` where it has none."""
        return code_name(self.code)

    def copy(self) -> Self:
        """Return an error that says the same of no call: the original may be raised on, and keeps its own."""
        other = type(self).__new__(type(self), *self.args)
        other.__dict__.update(self.__dict__)
        return other

    def during(self, command: str) -> CommandError:
        """Return the error as a client gets it: if a plan ran into it, `command` stands ahead."""
        if not self.executing or is_in(self.code, Category.INTERRUPTION):
            return self
        told = self.copy()
        told.executing, told.message = False, f"{command} :: caused by :: {self.message}"
        told.args = (told.message,)
        return told

    def without_frames(self) -> Self:
        """Return the error itself, let go of the calls it went through: whoever keeps it keeps no request."""
        self.__traceback__ = self.__cause__ = self.__context__ = None
        return self


class WriteError(CommandError):
    """One statement of a write failed: `{index, code, errmsg, …extra}` in `writeErrors`, and `ok: 1`.

    Raised out of a command that has no `writeErrors` (findAndModify), it is that command's error.
    """


def not_implemented(what: str) -> CommandError:
    """Return the error of what a server has and this one has not."""
    return CommandError(ErrorCode.NOT_IMPLEMENTED, f"{what} is not supported by this fake server")


def expired() -> CommandError:
    """Return the error of a command whose time is over (`maxTimeMS`)."""
    return CommandError(ErrorCode.MAX_TIME_MS_EXPIRED, "operation exceeded time limit")
