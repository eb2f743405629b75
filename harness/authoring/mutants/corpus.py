"""The place of the public specification tests, if they are on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

CORPUS_VARIABLE: Final = "PUSHBACKD_CORPUS"
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def find_corpus(*, environment: str | None, start: Path) -> Path | None:
    """Return the folder `source` of a checkout of the public specifications, or None.

    The environment names it, or it is the newest below a `shared/corpus` beside a folder that holds `start`.
    """
    if environment:
        return _source(Path(environment))
    for parent in start.resolve().parents:
        if found := [path for path in (parent / "shared" / "corpus").glob("*/source") if _is_complete(path)]:
            return max(found, key=lambda path: "".join(_DATE.findall(path.parent.name)))
    return None


def _source(folder: Path) -> Path | None:
    return next((path for path in (folder / "source", folder) if _is_complete(path)), None)


def _is_complete(source: Path) -> bool:
    return (source / "unified-test-format" / "tests").is_dir()
