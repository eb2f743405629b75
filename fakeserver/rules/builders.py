"""Rules from Python: `when(...).then(...)`, and `expect(...)`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, Unpack

from fakeserver.rules.parsing import plain
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    Perform = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


class UnmetExpectation(AssertionError):  # noqa: N818 - a check that failed, like its base
    """An expectation was not met; the text has the requests that came closest."""


class Stated(TypedDict, total=False):
    """The conditions of a rule beside its command; docs/RULES.md has their meaning."""

    namespace: str
    app_name: str
    node: str
    connection: int
    nth: int
    every: int
    attempt: int
    probability: float | str
    document: Mapping[str, Any]


_NAMES: Final = {name: name for name in Stated.__annotations__} | {"app_name": "appName"}


def conditions(command: str | Sequence[str] | None = None, **more: Unpack[Stated]) -> dict[str, Any]:
    """Return the document of the conditions of a rule. Raises `ControlError` for an unknown one."""
    stated: dict[str, Any] = {} if command is None else {"command": plain(command)}
    for name, value in more.items():
        if name not in _NAMES:
            raise unknown("condition", name, ["command", *_NAMES])
        if value is not None:
            stated[_NAMES[name]] = plain(value)
    return stated


class When:
    """The conditions of a rule, which `then` adds."""

    def __init__(self, perform: Perform, stated: Mapping[str, Any]) -> None:
        self._perform = perform
        self._stated = stated
        self._used = False

    def then(
        self,
        *effects: Mapping[str, Any],
        times: int | None = None,
        duration: str | None = None,
        until: str | None = None,
        name: str | None = None,
    ) -> RuleHandle:
        """Add the rule: effects of `fakeserver.rules`, or one `sequence`.

        It holds for so many matches (`times`), for so long (`duration`), or `until` so long after the start
        of the deployment, each a time with its unit (`"5s"`); else until it is removed. Raises
        `ControlError`.
        """
        self._used = True
        bounds = {"name": name, "times": times, "for": duration, "until": until}
        sequences = [effect for effect in effects if "sequence" in effect]
        if not sequences:
            outcome = {"then": list(effects)}
        elif len(effects) > 1:
            raise ControlError("a sequence stands alone; write the other effects into its steps")
        else:
            outcome = dict(sequences[0])
        rule: dict[str, Any] = {"when": self._stated, **outcome}
        rule |= {key: value for key, value in bounds.items() if value is not None}
        return RuleHandle(self._perform, self._perform("addRule", {"rule": rule})["id"])

    def __del__(self) -> None:
        """Warn of conditions of which nothing came."""
        if not self._used:
            warnings.warn(
                f"when({self._stated}) without then(...) does nothing", RuntimeWarning, stacklevel=2
            )


class RuleHandle:
    """A rule that was added. As a context manager it removes the rule at the end."""

    def __init__(self, perform: Perform, name: str) -> None:
        self._perform = perform
        self.id = name
        """The name by which it is listed and removed."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    @property
    def hits(self) -> int:
        """The number of requests that it was applied to."""
        return int(self._listed().get("hits", 0))

    def remove(self) -> None:
        """Remove the rule; one that is gone is no error."""
        if self._listed():
            self._perform("removeRule", {"id": self.id})

    def _listed(self) -> Mapping[str, Any]:
        """Return the rule as it is listed, empty where it is not."""
        rules = self._perform("listRules", {})["rules"]
        return next((rule for rule in rules if rule["id"] == self.id), {})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class Expected(RuleHandle):
    """An expectation. As a context manager it is checked and removed at the end."""

    @classmethod
    def add(
        cls,
        perform: Perform,
        stated: Mapping[str, Any],
        count: int | None,
        at_least: int | None,
        at_most: int | None,
        name: str | None,
    ) -> Self:
        """Add it: `count` matches, or a range; by default at least one. Raises `ControlError`."""
        bounds = {"count": count, "min": at_least, "max": at_most}
        expect = {key: value for key, value in bounds.items() if value is not None} or {"min": 1}
        rule = {"when": stated, "expect": expect} | ({} if name is None else {"name": name})
        return cls(perform, perform("addRule", {"rule": rule})["id"])

    @property
    def unmet(self) -> str:
        """Why it is not met, with the requests that came closest; "" if it is."""
        return str(self._listed().get("unmet", ""))

    def check(self) -> None:
        """Raise `UnmetExpectation` if it is not met."""
        unmet = self.unmet
        if unmet:
            raise UnmetExpectation(unmet)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        unmet = self.unmet
        self.remove()
        if unmet and error is None:  # what went wrong inside says more
            raise UnmetExpectation(unmet)
