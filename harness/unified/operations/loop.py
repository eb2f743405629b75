"""The loop: operations again and again, with what came of them stored for whoever reads the entities.

Unified Test Format: loop (deprecated since 1.24).

`_Stores` is made before the first iteration, so that a wrong name of a store is an error and not lost among
the errors that it was to hold. Counters and lists are ordinary entities and may be read while the loop runs.
`repeat`, below, is our own and shares nothing with it but its shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.adapters.base import AdapterLost, EntityKind, UnsupportedOperation
from harness.unified.arguments import signature
from harness.unified.errors import EntityError, ScenarioError
from harness.unified.operations.spec import OperationSpec, ResultComparison
from harness.unified.outcome import CaseFailedError, CaseSkippedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.adapters.base import Invocation
    from harness.unified.model import Operation
    from harness.unified.operations.spec import Context


@dataclass(slots=True)
class _Stores:
    """The stores of a loop for what came of it: the names that the scenario gives, empty for none."""

    context: Context
    errors: str
    failures: str
    successes: str
    iterations: str

    def __post_init__(self) -> None:
        """Make the entities. Raises `EntityError` when one is there that is of another kind."""
        entities = self.context.entities
        for name in filter(None, (self.errors, self.failures)):
            entities.array(name)
        for name in filter(None, (self.successes, self.iterations)):
            entities.add_document(name, 0)

    @classmethod
    def of(cls, context: Context, arguments: Mapping[str, Any]) -> _Stores:
        """Return the stores that the arguments of a loop name."""
        names = [arguments.get(name, "") for name in _STORES]
        for name in names:
            if not isinstance(name, str):
                raise EntityError(f"{name!r} is not the name of an entity")
        return cls(context, *names)

    @property
    def keep_what_goes_wrong(self) -> bool:
        """Return whether an error or a failure ends an iteration only, not the case."""
        return bool(self.errors or self.failures)

    def count(self, name: str) -> None:
        """Count one more success or iteration."""
        if name:
            self.context.entities.replace_document(name, self.context.entities.document(name) + 1)

    def keep(self, wrong: Exception) -> None:
        """Store an error or a failure; where only one of the two has a store, it takes both."""
        # A failure is something that came out other than expected. An error that no operation expected is an
        # error, though the runner raises it in the same way.
        failed = isinstance(wrong, CaseFailedError) and (wrong.error is None or wrong.mismatch is not None)
        name = self.failures if failed else self.errors
        found = {"error": str(wrong), "time": self.context.deployment.clock.utc()}
        self.context.entities.array(name or self.errors or self.failures).append(found)


_STORES = (
    "storeErrorsAsEntity",
    "storeFailuresAsEntity",
    "storeSuccessesAsEntity",
    "storeIterationsAsEntity",
)


async def _loop(context: Context, call: Invocation[Any]) -> None:
    stores = _Stores.of(context, call.arguments)
    began, iterations = context.deployment.clock.now(), 0
    while context.loops.go_on(iterations, context.deployment.clock.now() - began):
        # Counted when it begins: an iteration that goes wrong has been one.
        iterations += 1
        stores.count(stores.iterations)
        await _iterate(context, call.arguments["operations"], stores)


async def _iterate(context: Context, operations: Sequence[Operation], stores: _Stores) -> None:
    """Run all operations once, up to the first that goes wrong."""
    for operation in operations:
        try:
            await context.execute(context, operation)
        except (CaseSkippedError, UnsupportedOperation, AdapterLost):
            raise  # no iteration can go any better
        except (CaseFailedError, ScenarioError) as wrong:
            if not stores.keep_what_goes_wrong:
                raise
            stores.keep(wrong)
            return
        stores.count(stores.successes)


TABLE = (
    OperationSpec(
        "loop",
        (EntityKind.TEST_RUNNER,),
        signature("operations", " ".join(_STORES)),
        _loop,
        result=ResultComparison.NOTHING,
    ),
)


# `repeat`: operations run a number of times. Our own, for rules that only many operations show.
#
# Each time, each operation is one of its own: it is judged by its own expectations, and stands in the
# account of the case as often as it ran. Unlike `loop`, it keeps nothing, and ends at the first that goes
# wrong.


async def _repeat(context: Context, call: Invocation[Any]) -> None:
    value = call.arguments["times"]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ScenarioError(f"times must be an integer from 1 on, is {value!r}")
    # The same `Operation` each time: steps of the account are told apart by themselves, not by it.
    for _ in range(value):
        for operation in call.arguments["operations"]:
            await context.execute(context, operation)


REPEAT = (
    OperationSpec(
        "repeat",
        (EntityKind.TEST_RUNNER,),
        signature("times operations"),
        _repeat,
        result=ResultComparison.NOTHING,
    ),
)
