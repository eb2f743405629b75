"""The console command's first instant: from here on a signal ends it without a traceback.

Imports take a part of a second, in which Python would tell of an interrupt by the stack of whatever module it
has come to.
"""

from __future__ import annotations

from typing import NoReturn

from harness.world.immediate_exit import leave_at_once

leave_at_once()


def main() -> NoReturn:
    """Run the console command."""
    from harness.cli import main as run  # noqa: PLC0415 - signals are heard first

    run()


if __name__ == "__main__":
    main()
