"""The files of the page, read once: a handful, and small."""

from __future__ import annotations

from importlib import resources
from typing import Final

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def _read() -> dict[str, tuple[str, bytes]]:
    found = {}
    for file in resources.files("fakeserver.control.web").joinpath("page").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            found[path] = kind, file.read_bytes()
    return found


ASSETS: Final = _read()
"""The type and the bytes of each file, by its path; `/` is the page itself."""
