"""The control of a running deployment: one table of verbs, and the doors that lead to it.

    table        the verbs: name, arguments with units, what they apply to, what undoes them, a line of help
    control      `cluster.control`: a method of each verb; `perform` takes any of them by name
    listener     the control listener: a socket of its own, past admission, fail points, rules and quiesce
    client       `connect`: the control of a server that runs elsewhere, through its control listener
    registry     the servers that run, and how to reach them
    wire         `db.adminCommand({pushbackd: …})`
    scenario/    verbs on a timeline, from a YAML file
    web/         verbs over HTTP, and the live page

Every door hands a name and a document of arguments to `Control.perform`, so a verb behaves, and errs, alike
through all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fakeserver.control.control import DistantControl


def connect(id: str | None = None) -> DistantControl:  # noqa: A002 - as `pushbackd start --id` calls it
    """Return the control of a server that runs, by default of the only one. Raises `ControlError`.

    `fakeserver.control.connect("shop").kill("primary")`; `pushbackd ls` lists the ids.
    """
    from fakeserver.control import client  # noqa: PLC0415 - a deployment needs no client

    return client.connect(id)
