"""Offered load and goodput: clients that ask no matter what, and a server that may have too much to do.

Three kinds of experiment share the words (offered, goodput, capacity, patience) and the pages:

* On the fake server, over the wire. `plan.py` says how the load goes, `open_loop.py` asks by it, `trial.py`
  puts a server of a known capacity below both and counts. `defences.py` and `governed.py` are the tables and
  pictures of `pushbackd simulate overload` and `governed`; `probing.py` has closed-loop clients and the
  server's tickets.
* On the simulated fleet (`harness.sim.fleet`), for questions with a thousand clients and more. `claims.py`
  has the claims of the specifications, `sizing.py` the rate for an operator's numbers.
* On somebody's program. `drill.py` runs it against a deployment in which something goes wrong, `demo.py`
  runs a small shop to look at; both fold the wire into totals by `operations.py`.

`policy` is the controller of `pushbackd govern`, which works on any server; trials and claims use the same
rules. A module has `report` (numbers as a document), and `table`, `picture` and `page` to show them. Goodput
is what was answered within the clients' patience of a second, per second; rates are per second, times are
seconds.
"""

from __future__ import annotations

from harness.overload.open_loop import Answer, OpenLoop, RequestOutcome
from harness.overload.plan import Phase, Plan, ramp, spike, step
from harness.overload.trial import LoadWindow, Report, Trial

__all__ = [
    "Answer",
    "LoadWindow",
    "OpenLoop",
    "Phase",
    "Plan",
    "Report",
    "RequestOutcome",
    "Trial",
    "ramp",
    "spike",
    "step",
]
