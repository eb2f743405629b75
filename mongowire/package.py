"""The public face of a package: its names, some of them imported at their first use, and its version."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_DISTRIBUTION: Final = "pushbackd"
UNINSTALLED: Final = "from its sources"
"""What stands for the version of a program that is not installed."""


def version() -> str:
    """Return the installed version of this program."""
    from importlib import metadata  # noqa: PLC0415 - slow to import

    try:
        return metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return UNINSTALLED


def face(
    package: str, names: Sequence[str], at_first_use: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that shows `names` and `__version__`, and no more.

    `at_first_use` names the modules of what is imported when it is asked for; a name that is a submodule of
    the package stands for itself.
    """
    found = at_first_use or {}

    def get(name: str) -> Any:
        if name == "__version__":
            return version()
        if name in found:
            return getattr(import_module(found[name]), name)
        if name in names:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted([*names, "__version__"])
