"""The verb `verdict`: what of the faults of a run happened, and what reached the application."""

from __future__ import annotations

from typing import Final

from fakeserver.control.verbs.form import Verb
from fakeserver.control.verdict import verdict_of

VERBS: Final = (
    Verb(
        "verdict",
        "journal verdict",
        (),
        verdict_of,
        "Show which steps, rules, faults and fail points happened, which never did, and what failed.",
        reads=True,
        example="journal verdict",
    ),
)
