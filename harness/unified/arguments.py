"""Arguments and options by name: required ones, optional ones, and the fields of common options.

Unified Test Format: Executing an Operation, Common Options.

An argument that a runner does not know is an error here and never ignored: a test with a mistyped option
would pass without testing anything. The tables of `operations` are made of these signatures, lint and the
schema for editors read the same mappings, so that all three refuse the same files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.unified.errors import ScenarioError
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping


def signature(required: str = "", optional: str = "") -> dict[str, bool]:
    """Return the arguments that two lists of words name.

    The two lists are texts because a table of two hundred operations stays readable that way. The value of
    each name says whether it is required.
    """
    return {**dict.fromkeys(required.split(), True), **dict.fromkeys(optional.split(), False)}


def check_names(field: str, value: Any, allowed: Mapping[str, bool]) -> None:
    """Check that a mapping has all required names, and only allowed ones. Raises `ScenarioError`."""
    if not isinstance(value, dict):
        raise ScenarioError(f"{field} must be a mapping")
    # Unknown names before missing ones: a name with a typo is both, and only the first message says what was
    # meant.
    for name in value:
        if name not in allowed:
            hint = did_you_mean(name, allowed, f"arguments: {', '.join(allowed) or 'none'}")
            raise ScenarioError(f"{field} has no argument {name!r}", fix=hint)
    for name, required in allowed.items():
        if required and name not in value:
            raise ScenarioError(f"{field} needs argument {name!r}")


_COMMON: Final[Mapping[str, Mapping[str, bool]]] = {
    "readConcern": signature("", "level"),
    "readPreference": signature("mode", "hedge maxStalenessSeconds tagSets"),
    "writeConcern": signature("", "journal w wtimeoutMS"),
}
_TRANSACTION: Final = signature("", "maxCommitTimeMS readConcern readPreference timeoutMS writeConcern")


def check_options(options: Mapping[str, Any]) -> None:
    """Check the concerns and the read preference among arguments or options. Raises `ScenarioError`."""
    for name, allowed in _COMMON.items():
        # An absent option is absent, not null: `readConcern: null` is refused like any other value that is no
        # mapping.
        if name in options:
            check_names(name, options[name], allowed)


def check_session_options(options: Mapping[str, Any]) -> None:
    """Check the options of a session, in which those of transactions are nested. Raises `ScenarioError`."""
    defaults = options.get("defaultTransactionOptions", {})
    check_names("defaultTransactionOptions", defaults, _TRANSACTION)
    check_options(defaults)
