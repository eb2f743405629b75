"""Editions of the specifications: what changed between two dates, as values.

Behaviour that differs by date is read from an `Edition`, so no rule asks "which version is this?".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edition:
    """The rules of Client Backpressure and its neighbours, as they stood on a day.

    `first_backoff_exponent` is the power of two that multiplies the base before the first retry.
    `backpressure` is the value sent in the handshake. `first_transaction_exponent` is the power of 1.5 before
    the first retry of withTransaction, which may end with a timeout that wraps the last error.
    """

    name: str
    max_adaptive_retries: int
    retries_configurable: bool
    first_backoff_exponent: int
    honours_base_backoff: bool
    has_token_bucket: bool
    always_retargets: bool
    backpressure: bool | str
    overloaded_establishment: bool = True
    causally_consistent_writes: bool = False
    handshakes_by_op_msg: bool = False
    first_transaction_exponent: int = 0
    wraps_transaction_timeout: bool = False


EDITION_2026_02_20 = Edition(
    name="2026-02-20",
    max_adaptive_retries=5,
    retries_configurable=False,
    first_backoff_exponent=0,
    honours_base_backoff=False,
    has_token_bucket=True,
    always_retargets=True,
    backpressure=True,
)
"""Client Backpressure as of 2026-02-20: the edition that the reference driver follows by default."""

EDITION_2026_07_08 = Edition(
    name="2026-07-08",
    max_adaptive_retries=2,
    retries_configurable=True,
    first_backoff_exponent=1,
    honours_base_backoff=True,
    has_token_bucket=False,
    always_retargets=False,
    backpressure="2",
    causally_consistent_writes=True,
    handshakes_by_op_msg=True,
    first_transaction_exponent=1,
    wraps_transaction_timeout=True,
)
"""Client Backpressure as of 2026-07-08, with causally consistent writes (Causal Consistency)."""

EDITIONS = {edition.name: edition for edition in (EDITION_2026_02_20, EDITION_2026_07_08)}
DEFAULT = EDITION_2026_02_20
