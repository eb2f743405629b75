"""The files by which the drivers' evergreen tools tell where a server runs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bson import json_util

from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_expansions(folder: Path, variables: Mapping[str, str]) -> None:
    """Write `mo-expansion.yml`, `mo-expansion.sh` and `uri.txt`. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name}: {json_util.dumps(value)}\n" for name, value in variables.items()]
    write_whole(folder / "mo-expansion.yml", "".join(lines))
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    write_whole(folder / "mo-expansion.sh", "".join(lines))
    write_whole(folder / "uri.txt", variables["MONGODB_URI"] + "\n")
