"""The public tests that need no server: strings, options, credentials, concerns, discovery, selection."""

from __future__ import annotations

import pytest
from corpus_checkout import corpus_files

from harness.formats import FORMATS, FormatCase, MismatchError, cases_of

pytestmark = pytest.mark.corpus

AWS = (
    "auth/legacy/connection-string::should throw an exception if username and password provided (MONGODB-AWS)"
)

DEVIATIONS = {
    AWS: "other cases of the file take a user name and a password for this mechanism; only the host differs",
}
"""The cases that this driver does not pass, and why."""

ALL = [case for path in corpus_files(*FORMATS) for case in cases_of(path)]
CASES = {case.id: case for case in ALL}


@pytest.mark.parametrize(
    "case", [case for id_, case in CASES.items() if id_ not in DEVIATIONS], ids=lambda c: c.id
)
def test_the_reference_driver_knows_what_the_case_expects(case: FormatCase) -> None:
    case.run()


@pytest.mark.skipif(not CASES, reason="the public specification tests are absent")
@pytest.mark.parametrize("case_id", DEVIATIONS)
def test_a_deviation_is_still_one(case_id: str) -> None:
    with pytest.raises(MismatchError):
        CASES[case_id].run()


def test_no_two_cases_have_one_name() -> None:
    assert len(CASES) == len(ALL)
