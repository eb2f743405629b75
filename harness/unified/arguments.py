"""Arguments and options by name: which there are, which are needed, and what those hold that many share.

Unified Test Format: Executing an Operation, Common Options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Mapping


def arguments(required: str = "", optional: str = "") -> dict[str, bool]:
    """Return the arguments that two lists of words name."""
    return {**dict.fromkeys(required.split(), True), **dict.fromkeys(optional.split(), False)}


def check_names(field: str, given: Any, allowed: Mapping[str, bool]) -> None:
    """Check that all required names are given, and no other than the allowed. Raises `ScenarioError`."""
    if not isinstance(given, dict):
        raise ScenarioError(f"{field} must be a mapping")
    for name in given:
        if name not in allowed:
            known = ", ".join(allowed) or "none"
            raise ScenarioError(f"{field} has no argument {name!r}", fix=f"arguments: {known}")
    for name, required in allowed.items():
        if required and name not in given:
            raise ScenarioError(f"{field} needs argument {name!r}")


_COMMON: Final[Mapping[str, Mapping[str, bool]]] = {
    "readConcern": arguments("", "level"),
    "readPreference": arguments("mode", "hedge maxStalenessSeconds tagSets"),
    "writeConcern": arguments("", "journal w wtimeoutMS"),
}
_TRANSACTION: Final = arguments("", "maxCommitTimeMS readConcern readPreference timeoutMS writeConcern")


def check_options(given: Mapping[str, Any]) -> None:
    """Check the concerns and the read preference among arguments or options. Raises `ScenarioError`."""
    for name, allowed in _COMMON.items():
        if name in given:
            check_names(name, given[name], allowed)


def check_session_options(given: Mapping[str, Any]) -> None:
    """Check the options of a session, in which those of transactions are nested. Raises `ScenarioError`."""
    defaults = given.get("defaultTransactionOptions", {})
    check_names("defaultTransactionOptions", defaults, _TRANSACTION)
    check_options(defaults)
