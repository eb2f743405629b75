"""Where the public specification tests are, if they are on this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

VARIABLE = "PUSHBACKD_CORPUS"
ABSENT = f"the public specification tests are absent: set {VARIABLE} to the folder that holds their 'source'"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def find_corpus(
    *, environment: str | None = os.environ.get(VARIABLE), start: Path = Path(__file__)
) -> Path | None:
    """Return the folder `source` of a checkout of the public specifications, or None.

    The environment names it, or it is the newest below a `shared/corpus` beside a folder that holds `start`.
    """
    if environment:
        named = Path(environment)
        return next((path for path in (named / "source", named) if _is_complete(path)), None)
    for parent in start.resolve().parents:
        if found := [path for path in (parent / "shared" / "corpus").glob("*/source") if _is_complete(path)]:
            return max(found, key=lambda path: "".join(_DATE.findall(path.parent.name)))
    return None


def _is_complete(source: Path) -> bool:
    return (source / "unified-test-format" / "tests").is_dir()


def corpus_files(*folders: str) -> list[Path]:
    """Return the JSON files below folders of the checkout, in order; none where it is absent."""
    source = find_corpus()
    if source is None:
        return []
    found = [path for folder in folders for path in sorted((source / folder).rglob("*.json"))]
    assert found
    return found
