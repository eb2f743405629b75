"""The effects of a rule on a request: a delay, an answer, and additions to the answer of the server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.errors import CommandError


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer with an error. `labels` replace the computed ones; None leaves those."""

    error: CommandError
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class RuleReply:
    """Answer with a document."""

    document: Mapping[str, Any]


class Ending(Enum):
    """The answers that need no more words; the value is the effect's name."""

    CLOSE = "close"
    """Close the connection."""
    SILENCE = "silence"
    """Give no answer."""
    PASS = "pass"  # noqa: S105 - no password
    """Let the request pass."""
    HOLD = "hold"
    """Hold it until a test says what becomes of it."""


Answer: TypeAlias = Fail | RuleReply | Ending


@dataclass(frozen=True, slots=True)
class Effects:
    """What one match of a rule does."""

    delay: float = 0.0
    """Seconds."""
    answer: Answer | None = None
    labels: tuple[str, ...] = ()
    """Labels that are added to the reply."""
    write_concern_error: Mapping[str, Any] | None = None
    replacing_labels: tuple[str, ...] | None = None
    """The labels of the reply with that write concern error, in place of the computed ones."""
    name: str = ""
    """The effects in words, for the journal: `delay+error`."""

    @property
    def is_nothing(self) -> bool:
        """Whether it does nothing."""
        return not self.name
