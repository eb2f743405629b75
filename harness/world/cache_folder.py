"""The folder for what a later run may use again, and may as well lose: `.pushbackd_cache`.

It lies beside `.git` or `pyproject.toml`, in the nearest folder upwards that has one of them, or else in the
current folder; `PUSHBACKD_CACHE_DIR` names another one. It ignores itself in git.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mongowire.whole_file import write_whole

VARIABLE: Final = "PUSHBACKD_CACHE_DIR"
NAME: Final = ".pushbackd_cache"

_MARKS_OF_ROOT: Final = (".git", "pyproject.toml")
_TAG: Final = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of pushbackd.\n"


def cache_folder() -> Path:
    """Return the folder, which need not exist."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    here = Path.cwd()
    found = (each for each in (here, *here.parents) if any((each / mark).exists() for mark in _MARKS_OF_ROOT))
    return next(found, here) / NAME


def read_cached(name: str) -> Any:
    """Return the JSON document of a name, None when there is none that can be read."""
    try:
        return json.loads((cache_folder() / name).read_bytes())
    except (OSError, ValueError):
        return None


def write_cached(name: str, document: Any) -> None:
    """Keep a JSON document under a name. A folder that cannot be written keeps nothing."""
    with suppress(OSError):
        write_whole(_marked() / name, json.dumps(document, ensure_ascii=False))


def cached_file(room: str, name: str, text: str, *, most: int) -> Path:
    """Keep a text in a room of the folder, with the newest `most` files of it; return its path.

    Raises `OSError`.
    """
    folder = _marked() / room
    path = folder / name
    write_whole(path, text)
    newest = sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime_ns, reverse=True)
    for each in newest[most:]:
        each.unlink(missing_ok=True)
    return path


def _marked() -> Path:
    """Return the folder, which says that it is a cache. Raises `OSError`."""
    folder = cache_folder()
    for file, text in ((".gitignore", "*\n"), ("CACHEDIR.TAG", _TAG)):
        if not (folder / file).exists():
            write_whole(folder / file, text)
    return folder
