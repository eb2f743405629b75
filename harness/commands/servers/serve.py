"""`pushbackd serve`: the fake server's own command, under the common name."""

from __future__ import annotations

from fakeserver.cli.command import serve_command
from fakeserver.cli.program import run

command = serve_command(run)
