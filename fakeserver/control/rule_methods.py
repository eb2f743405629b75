"""The methods of `cluster.control` for rules, beside those of the table."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Unpack

from fakeserver.control.methods import Methods
from fakeserver.control.receiving import PATIENCE
from fakeserver.rules.builders import Expected, When, conditions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.control.receiving import Receiver, Receiving
    from fakeserver.rules.builders import Stated


class RuleMethods(Methods):
    """Rules as Python writes them; each method raises `ControlError`."""

    def when(self, command: str | Sequence[str] | None = None, **more: Unpack[Stated]) -> When:
        """Begin a rule with its conditions: `when("find", nth=2).then(error(462))`.

        The other conditions are those of `fakeserver.rules.builders.Stated`.
        """
        return When(self.perform, conditions(command, **more))

    def expect(
        self,
        command: str | Sequence[str] | None = None,
        *,
        count: int | None = None,
        at_least: int | None = None,
        at_most: int | None = None,
        name: str | None = None,
        **more: Unpack[Stated],
    ) -> Expected:
        """Expect requests: `count`, or a range; by default at least one.

        In a `with` block the expectation is checked at the end; `unmet` checks all that there are.
        """
        return Expected.add(self.perform, conditions(command, **more), count, at_least, at_most, name)

    def unmet(self) -> str:
        """Return why expectations are not met, with the requests that came closest; "" if all are."""
        rules: Sequence[Mapping[str, Any]] = self.perform("listRules")["rules"]
        return "\n".join(rule["unmet"] for rule in rules if "unmet" in rule)


class LocalMethods(RuleMethods):
    """The methods that a caller on the deployment's own loop awaits."""

    @abstractmethod
    def begin(self) -> None:
        """Take the deployment as it is now for the beginning, which `reset` brings back."""

    @abstractmethod
    def receives(
        self,
        command: str | Sequence[str] | None = None,
        *,
        within: str = PATIENCE,
        **more: Unpack[Stated],
    ) -> Receiving:
        """Hold the next request that meets the conditions, and return it when awaited.

        Raises `UnmetExpectation` if none comes `within` that time.
        """

    @abstractmethod
    def hold(self, command: str | Sequence[str] | None = None, **more: Unpack[Stated]) -> Receiver:
        """Hold every request that meets the conditions, from now on until the block ends."""
