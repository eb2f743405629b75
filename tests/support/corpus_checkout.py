"""Where the public specification tests are, if they are on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from harness.authoring.mutants.suites import CORPUS_VARIABLE as VARIABLE
from harness.authoring.mutants.suites import find_corpus as find

ABSENT = f"the public specification tests are absent: set {VARIABLE} to the folder that holds their 'source'"


def find_corpus(
    *, environment: str | None = os.environ.get(VARIABLE), start: Path = Path(__file__)
) -> Path | None:
    """Return the folder `source` of a checkout, or None, as the harness finds it."""
    return find(environment=environment, start=start)


def corpus_files(*folders: str) -> list[Path]:
    """Return the JSON files below folders of the checkout, in order; none where it is absent."""
    source = find_corpus()
    if source is None:
        return []
    found = [path for folder in folders for path in sorted((source / folder).rglob("*.json"))]
    assert found
    return found
