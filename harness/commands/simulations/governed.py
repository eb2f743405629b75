"""`pushbackd simulate governed`: what part of the possible goodput each policy reaches.

The policies are those of `pushbackd govern`, the plans of the load and the measure are in
`harness.overload.governed`. How much a server could have answered at most is known here, which no measurement
of a real one tells.
"""

from __future__ import annotations

import click

from harness.commands.options.types import Seconds
from harness.commands.simulations.reporting import json_option, live_option, show
from harness.overload import governed
from harness.report.progress import work


@click.command("governed")
@click.option(
    "--seconds",
    type=Seconds(),
    default="40s",
    show_default=True,
    help="How long each trial lasts, in seconds.",
)
@live_option
@json_option
def command(*, seconds: float, live: bool, as_json: bool) -> None:
    """Measure each policy of `pushbackd govern` through a step, a ramp and a spike of the load.

    'of possible' is the goodput as a part of what such a server could have answered, 'at last' that of the
    end of the busy time.
    """
    with work("trials", governed.trials(live=live)) as advance:
        report = governed.report(seconds=seconds, live=live, on_trial=lambda: advance(1))
    show(report, governed.table, as_json=as_json)
