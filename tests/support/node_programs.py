"""The programs of tests/clients for the Node driver."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from served import PROGRAMS, told, with_options

NODE = shutil.which("node")
MODULES = [
    Path(folder) for folder in os.environ.get("PUSHBACKD_NODE_MODULES", "").split(os.pathsep) if folder
]
"""Folders of modules: the first has the driver of today, the others may have older ones."""

NEEDS_NODE = [
    pytest.mark.slow,
    pytest.mark.skipif(NODE is None, reason="there is no node on this machine"),
    pytest.mark.skipif(
        not MODULES or not all((folder / "mongodb").is_dir() for folder in MODULES),
        reason="PUSHBACKD_NODE_MODULES names no folders with the Node driver (npm install mongodb)",
    ),
]
"""The marks of tests that run them."""


def run(
    program: str, uri: str, *options: str, modules: Path | None = None, arguments: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Run a program with the driver of a folder, and return what it told."""
    assert NODE is not None
    command = [NODE, str(PROGRAMS / f"{program}.cjs"), with_options(uri, *options), *arguments]
    return told(command, {"NODE_PATH": str(modules or MODULES[0])})
