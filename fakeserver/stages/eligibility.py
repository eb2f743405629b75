"""Whether a command may run on its database, in a transaction, with a transaction number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.errors import CommandError
from fakeserver.pipeline import PASS, Action, Stage, Step
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.request import RequestContext

_MAX_DB_BYTES: Final = 63
_FORBIDDEN: Final = frozenset('/\\. "\0$')
_EXTERNAL: Final = "$external"
_KNOWN_NAMES: Final = 1024
_OWN_DBS: Final = ("config", "local")
_OWN_COLLECTIONS: Final = ("system.profile", "system.views")
_COUNT_HINT: Final = (
    " Please see http://dochub.mongodb.org/core/transaction-count for a recommended alternative."
)


def is_valid_db(name: str) -> bool:
    """Say whether a database may have this name."""
    if name == _EXTERNAL:
        return True
    return 0 < len(name.encode()) <= _MAX_DB_BYTES and _FORBIDDEN.isdisjoint(name)


class Eligibility(Stage):
    """The database's name, then transactions and retryable writes."""

    step = Step.ELIGIBILITY

    def __init__(self) -> None:
        self._valid: set[str] = set()

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        if request.db not in self._valid:
            self._check_db(request.db)
        if request.txn_number is not None:
            _check_transaction(request)
        return PASS

    def _check_db(self, name: str) -> None:
        if not is_valid_db(name):
            raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid database name: '{name}'")
        if len(self._valid) < _KNOWN_NAMES:
            self._valid.add(name)


def _check_transaction(request: RequestContext) -> None:
    spec = request.spec
    if request.has_autocommit:
        if not spec.in_transaction:
            hint = _COUNT_HINT if spec.name == "count" else ""
            raise CommandError(
                ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                f"Cannot run '{spec.name}' in a multi-document transaction.{hint}",
            )
        _check_namespace(request)
    elif not spec.retryable_write:
        raise CommandError(
            ErrorCode.NOT_A_RETRYABLE_WRITE_COMMAND,
            "txnNumber may only be provided for multi-document transactions and retryable write commands."
            f" autocommit:false was not provided, and {spec.name} is not a retryable write command.",
        )


def _check_namespace(request: RequestContext) -> None:
    """Refuse what the server keeps for itself. Raises `CommandError` 263."""
    if request.db in _OWN_DBS:
        raise CommandError(
            ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            f"Cannot run command against the '{request.db}' database in a transaction.",
        )
    target = next(iter((request.command or {}).values()), None)
    if target in _OWN_COLLECTIONS:
        raise CommandError(
            ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            f"Cannot run command against the '{request.db}.{target}' collection in a transaction.",
        )
