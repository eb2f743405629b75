"""The example around the Node driver: where it is, and what its tests need."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

MODULES = os.environ.get("PUSHBACKD_NODE_MODULES", "").split(os.pathsep)[0]
COMMAND = shlex.join(
    [
        "env",
        f"NODE_PATH={MODULES}",
        "node",
        str(Path(__file__).parents[2] / "examples" / "adapters" / "node" / "adapter.cjs"),
    ]
)

NEEDS_NODE = (
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on this machine"),
    pytest.mark.skipif(
        not MODULES or not (Path(MODULES) / "mongodb").is_dir(),
        reason="PUSHBACKD_NODE_MODULES names no folder with the Node driver (npm install mongodb@7)",
    ),
)
