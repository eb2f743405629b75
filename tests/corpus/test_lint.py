"""What lint says of the public files: it refuses what is meant to fail, and few rules tell of others."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from harness.lint.engine import lint_files
from harness.planning.discovery import discover

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

LEFT_OVER = {
    "unused-anchor",
    "unused-entity",
    "schema-version",
    "empty-case",
    "vacuous-label",
    "timed-wait",
    "wrong-argument",
}
"""What public files do have: names that nobody uses, versions that are higher or lower than they need be,
cases of schemas that do nothing, a misspelt label, waits, and arguments that do not exist, in cases that are
skipped."""


def test_only_files_that_are_meant_to_fail_are_refused(corpus: Path) -> None:
    findings = lint_files(discover([corpus]))
    refused = {Path(finding.path).parent.name for finding in findings if finding.refused}
    assert refused == {"invalid", "valid-fail"}
    told = Counter(finding.rule for finding in findings if not finding.refused)
    assert told.keys() == LEFT_OVER
    assert told["timed-wait"] + told["vacuous-label"] + told["wrong-argument"] < 10
