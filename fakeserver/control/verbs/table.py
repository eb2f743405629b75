"""The one table of verbs, merged from the tables of the families."""

from __future__ import annotations

from typing import Final

from fakeserver.control.verbs import (
    admission_verbs,
    data_verbs,
    deployment_verbs,
    fail_point_verbs,
    fault_verbs,
    journal_verbs,
    reset_verbs,
    rule_verbs,
    state_verbs,
    tls_verbs,
)
from fakeserver.control.verbs.form import Verbs

VERBS: Final = Verbs(
    [
        *deployment_verbs.VERBS,
        *admission_verbs.VERBS,
        *fail_point_verbs.VERBS,
        *rule_verbs.VERBS,
        *fault_verbs.VERBS,
        *tls_verbs.VERBS,
        *data_verbs.VERBS,
        *state_verbs.VERBS,
        *journal_verbs.VERBS,
        *reset_verbs.VERBS,
    ]
)
"""Every verb, by family."""
