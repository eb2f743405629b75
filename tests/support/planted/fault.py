"""A fault that is planted: a piece of the driver or of the fake server is another one while a block runs."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Plant: TypeAlias = Callable[[], AbstractContextManager[None]]
    Wrap: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Planted:
    """A wrong driver or server. `meaning` says what it does, `checker` names the rule that has to notice.

    `apply` returns a context manager, within which every driver, or server, of this process is wrong.
    """

    name: str
    where: Literal["driver", "server"]
    meaning: str
    checker: str
    apply: Plant


@contextmanager
def replaced(owner: Any, name: str, wrap: Wrap) -> Iterator[None]:
    """Replace a function of a class or of a module by what `wrap` makes of it, until the block ends."""
    original = getattr(owner, name)
    setattr(owner, name, wrap(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


def replacing(owner: Any, name: str, wrap: Wrap) -> Plant:
    """Return what plants one replacement."""
    return lambda: replaced(owner, name, wrap)
