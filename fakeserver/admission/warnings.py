"""Warnings in the log when parameters of admission control are set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.admission import ticket_sizes
from fakeserver.settings.declaration import INT32_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fakeserver.profile import Profile
    from fakeserver.settings.server_parameters import ServerParameters

RATE: Final = "ingressRequestAdmissionRatePerSec"
RATE_SWITCH: Final = "ingressRequestRateLimiterEnabled"


class Warned(NamedTuple):
    """A line of the log: its component, the number that a mongod gives it or 0, and what it says."""

    component: str
    number: int
    message: str
    attr: Mapping[str, Any] | None = None


_SIZES_END_PROBING: Final = Warned(
    "STORAGE",
    11039601,
    "When using the kThroughputProbing execution control algorithm, all concurrent transactions server"
    " parameters must remain at their default values. Non-default values will be ignored.",
)
_SIZE_WHILE_PROBING: Final = Warned(
    "STORAGE",
    11280900,
    "Updating {serverParameter} while a dynamic adjustment algorithm (e.g., throughputProbing) is active. The"
    " new value will be stored but may not take effect until the algorithm is changed.",
)


def at_start(parameters: ServerParameters, profile: Profile) -> Iterator[Warned]:
    """Yield what a server warns of when it starts."""
    yield from _idle_rate(parameters)
    if parameters.sizes_end_probing and profile.resizes_probed_pools:
        yield _SIZES_END_PROBING


def on_change(names: Collection[str], parameters: ServerParameters, profile: Profile) -> Iterator[Warned]:
    """Yield what a server warns of after it was set `names`."""
    if RATE in names or RATE_SWITCH in names:
        yield from _idle_rate(parameters)
    for limit in ticket_sizes.resized_while_probing(names, parameters, profile):
        yield _SIZE_WHILE_PROBING._replace(attr={"serverParameter": limit})


def _idle_rate(own: ServerParameters) -> Iterator[Warned]:
    """Warn of a rate that limits nothing: the switch beside it is easily missed."""
    if RATE in own and own[RATE] < INT32_MAX and not own[RATE_SWITCH]:
        yield Warned("COMMAND", 0, f"{RATE} has no effect while {RATE_SWITCH} is false")
