"""`python -m fakeserver`."""

from __future__ import annotations

import sys

from fakeserver.cli.program import main

if __name__ == "__main__":
    sys.exit(main())
