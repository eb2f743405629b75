"""`repeat`: operations run a number of times. Our own, for rules that only many operations show.

Each time, each operation is one of its own: it is judged by its own expectations, and stands in the account
of the case as often as it ran. Unlike `loop`, it keeps nothing, and ends at the first that goes wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind
from harness.unified.arguments import signature
from harness.unified.errors import ScenarioError
from harness.unified.operations.spec import OperationSpec, ResultComparison

if TYPE_CHECKING:
    from harness.adapters.base import Invocation
    from harness.unified.operations.spec import Context


async def _repeat(context: Context, call: Invocation[Any]) -> None:
    for _ in range(_times(call.arguments["times"])):
        for operation in call.arguments["operations"]:
            await context.execute(context, operation)


def _times(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ScenarioError(f"times must be an integer from 1 on, is {value!r}")
    return value


TABLE = (
    OperationSpec(
        "repeat",
        (EntityKind.TEST_RUNNER,),
        signature("times operations"),
        _repeat,
        result=ResultComparison.NOTHING,
    ),
)
