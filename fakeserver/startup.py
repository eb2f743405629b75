"""What a server does about its settings: fail points that act at once, and a rate that does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.failpoints import FRACTIONAL_RATE_OVERRIDE, HANG_IN_RATE_LIMITER, STOP_REPL_PRODUCER
from fakeserver.parameter import INT32_MAX, Parameter
from fakeserver.parameters import FAIL_POINT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.node import Node

_RATE: Final = "ingressRequestAdmissionRatePerSec"
_SWITCH: Final = "ingressRequestRateLimiterEnabled"
RATE_OF_REQUESTS: Final = frozenset({_RATE, _SWITCH})
"""The parameters that `warn_of_idle_rate` looks at."""


def configure_fail_points(node: Node, parameters: Mapping[str, Any]) -> None:
    """Configure the fail points that a server is started with, `failpoint.<name>` each.

    Raises `CommandError`, which names the parameter.
    """
    for name, value in parameters.items():
        if not name.startswith(FAIL_POINT_PREFIX):
            continue
        setting = Parameter(name, "document", {}, at_runtime=False).parse(value)
        point = name.removeprefix(FAIL_POINT_PREFIX)
        try:
            node.configure_fail_point(point, mode=setting.get("mode"), data=setting.get("data"))
        except CommandError as error:
            raise CommandError(error.code, f"parameter {name}: {error.message}") from None


def apply_fail_point(node: Node, name: str, data: Any) -> None:
    """Have a fail point act that was configured just now, if it is one that nobody asks later."""
    on = node.fail_points.is_configured(name)
    if name == STOP_REPL_PRODUCER:
        hold_if_stopped(node)
    elif name == HANG_IN_RATE_LIMITER:
        for limiter in (node.admission.requests, node.admission.establishment):
            limiter.hangs = on
    elif name == FRACTIONAL_RATE_OVERRIDE:
        node.admission.override_rate((data or {}).get("rate") if on else None, node.clock.now())


def hold_if_stopped(node: Node) -> None:
    """Have a server apply nothing while `stopReplProducer` is on, once it is a member of a set."""
    if hasattr(node, "member"):
        stopped = node.fail_points.is_configured(STOP_REPL_PRODUCER)
        (node.position.hold if stopped else node.position.release)(STOP_REPL_PRODUCER)


def warn_of_idle_rate(node: Node) -> None:
    """Warn of a rate that limits nothing: it takes a switch besides."""
    own = node.parameters
    if _RATE in own and own[_RATE] < INT32_MAX and not own[_SWITCH]:
        message = f"{_RATE} has no effect while {_SWITCH} is false"
        node.log.write("COMMAND", 0, message, severity="W", context="initandlisten")
