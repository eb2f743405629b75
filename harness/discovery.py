"""From paths to scenario files: named ones, those below a folder, and those that the package brings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.formats import declared_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SUFFIXES = (".yml", ".yaml", ".json")


class BadInputError(Exception):
    """What the user named cannot be run: says which file and why."""


def bundled_root() -> Path:
    """Return the folder of the scenarios that are installed with the harness."""
    from importlib import resources  # noqa: PLC0415 - brings archives and temporary files along

    return Path(str(resources.files("spec_tests")))


def discover(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the scenario files of `paths`, each once, in a fixed order; without paths, the bundled ones.

    A file that is named is taken as it is. Below a folder, only files of a known format count
    (`harness.formats`), and a JSON file only when no YAML file of the same name stands beside it. Raises
    `BadInputError`.
    """
    found: dict[Path, None] = {}
    for path in tuple(paths) or (bundled_root(),):
        found.update(dict.fromkeys(_of_one(path)))
    return tuple(found)


def is_scenario(path: Path) -> bool:
    """Return whether a file declares itself, by its fields, to be of a known format."""
    if path.suffix not in _SUFFIXES:
        return False
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return False
    return declared_in(text, is_json=path.suffix == ".json")


def _of_one(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise BadInputError(f"{path}: no such file or folder")
    below = list(_below(path))
    if not below:
        raise BadInputError(f"{path}: holds no scenarios (no file of a format that is known)")
    return below


def _refuse_unreadable(path: Path) -> None:
    """Raise `BadInputError` for a name that is no text: it can stand in no report."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise BadInputError(f"{str(path)!r}: the name is not UTF-8") from None


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in _SUFFIXES:
            _refuse_unreadable(path)
        if path.suffix == ".json" and any(path.with_suffix(suffix).exists() for suffix in _SUFFIXES[:2]):
            continue
        if path.suffix in _SUFFIXES and path.is_file() and is_scenario(path):
            yield path
