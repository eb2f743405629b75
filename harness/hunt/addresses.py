"""An address of its own for the deployment of each trial.

What is left of a run that was ended, such as a process that has left its group, goes on asking where its
deployment was. The port is free then, and may soon be another deployment's: of the next trial, or of a hunt
beside this one. The writes would be told as a bug of a program that never made them. A system with all of
127.0.0.0/8 has an address for each trial, on which nobody listens once it is over.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from fakeserver.deployment.spec import ClusterSpec

if TYPE_CHECKING:
    from fakeserver.control.scenario.model import Scenario

_SHARED: Final = "localhost"
_HAS_ALL: Final = ("linux", "win32")
"""Systems on which every address of 127.0.0.0/8 is this machine; elsewhere it is 127.0.0.1 alone."""
_EACH: Final = 254
"""The values of a byte of an address: neither 0 nor 255."""
_TRIALS: Final = 1024
"""The addresses of a process, before it begins anew; another process has others."""
_numbers: Final = count()


def at_its_own(started: ClusterSpec | Scenario) -> ClusterSpec | Scenario:
    """Return a deployment at an address that no other has; one whose address is given keeps it."""
    spec = started if isinstance(started, ClusterSpec) else started.spec
    if sys.platform not in _HAS_ALL or spec.host != _SHARED or spec.bind_ip is not None:
        return started
    if spec.tls is not None:
        return started  # its certificate names the host
    here = replace(spec, host=address(os.getpid(), next(_numbers)))
    return here if isinstance(started, ClusterSpec) else replace(started, spec=here)


def address(process: int, number: int) -> str:
    """Return the address of a process's trial."""
    rest = process * _TRIALS + number % _TRIALS
    parts = []
    for _ in range(3):
        rest, part = divmod(rest, _EACH)
        parts.append(str(part + 1))
    return ".".join(["127", *reversed(parts)])
