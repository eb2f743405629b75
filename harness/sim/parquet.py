"""Parquet files, which need the extra `simulation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MISSING: Final = "{} is not installed: pip install 'pushbackd[simulation]'"
"""What is said where a library of the extra is missing."""


def check() -> None:
    """Raise `ImportError`, whose text is one line with the cure, where no Parquet can be written."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ImportError(MISSING.format("pyarrow")) from None


def write(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns by their names. Raises `OSError`, and `ImportError` without the extra."""
    check()
    from pyarrow import parquet, table  # noqa: PLC0415 - an extra

    parquet.write_table(table(dict(columns)), path)
