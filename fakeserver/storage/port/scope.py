"""The surroundings of a filter, an expression or a pipeline: variables, collation, other collections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bson import ObjectId

    from fakeserver.storage.port.engine import IndexSpec
    from fakeserver.storage.scripts.javascript import ScriptReply
    from fakeserver.storage.values.metadata import QueryMetadata
    from mongowire.ports import Rng

Frame: TypeAlias = dict[str, Any]
"""The variables of one evaluation: `ROOT`, `CURRENT`, `NOW`, those of `let`, and what operators bind."""

Evaluate: TypeAlias = "Callable[[Frame], Any]"
"""A compiled expression: `MISSING` is what a path that leads nowhere evaluates to."""


class Scripts(Protocol):
    """Runs scripts for a command, which then waits as long as they slept."""

    def where(self, code: str) -> Callable[[Any], bool]:
        """Return a script as a predicate on documents. Raises `CommandError` where it cannot be run."""
        ...

    def function(self, code: str) -> Callable[[Any, list[Any]], ScriptReply]:
        """Return a script as a function of `this` and its arguments. Raises `CommandError`."""
        ...

    def settle(self) -> None:
        """Have the command wait for what its scripts slept: what it raises ends this run of the command."""
        ...


_NO_VARIABLES: Final[Mapping[str, Any]] = {}
_NO_METADATA: Final[Mapping[str, Callable[[Any], Any]]] = {}


class Scope(NamedTuple):
    """The surroundings of a query.

    `fold` compares strings by collation; `variables` are visible as `$$name`. `read` returns the documents of
    another collection, to be left alone as they are; `look_up` those whose field an index knows to equal a
    scalar, or None where no index tells. `rng` is for `$sample` and `$rand`, and `make_id` makes ObjectIds.
    `meta` are the metadata that `$meta` may name, as functions of the document at the root. `scripts` runs
    JavaScript, None where it is not allowed. `indexes` are those of the collection, and `metadata` holds what
    text and geographic searches find out about its documents. `spills` says whether stages that need all
    documents may use the disk where these are more than fit into their memory (`allowDiskUse`). `release` is
    the wire version of the release whose operators are known, 0 for all.
    """

    fold: Callable[[str], Any] | None = None
    variables: Mapping[str, Any] = _NO_VARIABLES
    read: Callable[[Any], list[dict[str, Any]]] | None = None
    rng: Rng | None = None
    meta: Mapping[str, Callable[[Any], Any]] = _NO_METADATA
    make_id: Callable[[], ObjectId] | None = None
    scripts: Scripts | None = None
    indexes: Sequence[IndexSpec] = ()
    metadata: QueryMetadata | None = None
    spills: bool = True
    look_up: Callable[[Any, str, Any], list[dict[str, Any]] | None] | None = None
    release: int = 0

    def knows(self, name: str, since: Mapping[str, int]) -> bool:
        """Return whether the release has an operator, by a table of since when there are the newer ones."""
        return not self.release or since.get(name, 0) <= self.release

    def settle(self) -> None:
        """Have the command wait for what scripts slept so far."""
        if self.scripts is not None:
            self.scripts.settle()

    def binding(self, variables: Mapping[str, Any]) -> Scope:
        """Return the same surroundings with more variables."""
        return self._replace(variables={**self.variables, **variables})

    def frame(self, document: Any) -> Frame:
        """Return the variables with which an expression sees `document`."""
        return {**self.variables, "ROOT": document, "CURRENT": document}

    def names(self) -> frozenset[str]:
        """Return the names of the variables that an expression may use."""
        return frozenset(self.variables) | {"ROOT", "CURRENT", "REMOVE"}
