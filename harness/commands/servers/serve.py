"""`pushbackd serve`: the fake server's own command, under the common name.

`fakeserver` has a command line of its own, which needs nothing of the harness; the same options stand here,
so that `pushbackd` is all that a user has to know.
"""

from __future__ import annotations

from fakeserver.cli.command import serve_command
from fakeserver.cli.program import run

command = serve_command(run)
