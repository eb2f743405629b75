"""From paths to scenario files: named ones, those below a folder, and those that the package brings."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from harness.formats import declared_in
from harness.unified.build import id_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SUFFIXES = (".yml", ".yaml", ".json")


class BadInputError(Exception):
    """A path that cannot be run; the message names it and says why."""


def bundled_root() -> Path:
    """Return the folder of the scenarios that are installed with the harness."""
    from importlib import resources  # noqa: PLC0415 - brings archives and temporary files along

    return Path(str(resources.files("spec_tests")))


def discover(paths: Iterable[Path], *, servers: bool = False) -> tuple[Path, ...]:
    """Return the scenario files of `paths`, each once, in a fixed order; without paths, the bundled ones.

    A file that is named is taken as it is. Below a folder, only files of a known format count
    (`harness.formats`), with `servers` also scenarios for servers, and a JSON file only when no YAML file of
    the same name stands beside it. Raises `BadInputError`.
    """
    found: dict[Path, None] = {}
    for path in tuple(paths) or (bundled_root(),):
        if path.is_file():
            found[path] = None
            continue
        if not path.is_dir():
            raise BadInputError(f"{path}: no such file or folder")
        below = dict.fromkeys(_below(path, servers=servers))
        if not below:
            raise BadInputError(f"{path}: holds no scenarios (no file of a format that is known)")
        found.update(below)
    return tuple(found)


def named(name: str, others: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return what a name means: a path, or scenario files by the short names that reports give them.

    A short name is that of a folder and a file, `retryable-writes/batches`, or of a folder; `*` and `…` stand
    for any text. It is looked for in the current folder, then among `others`, then among the bundled
    scenarios. Raises `BadInputError` when it is nowhere.
    """
    for suffix in ("", *_SUFFIXES):
        if os.path.exists(f"{name}{suffix}"):  # noqa: PTH110 - no name is too long for it
            return (Path(f"{name}{suffix}"),)
    root = bundled_root()
    short = name.removeprefix(f"{root.name}/").removesuffix("/")
    short = short.removesuffix(next((suffix for suffix in _SUFFIXES if short.endswith(suffix)), ""))
    anything = ".*".join(map(re.escape, short.replace("…", "*").split("*")))
    pattern = re.compile(f"{anything}(/.*)?", re.DOTALL)
    for files in (tuple(others), _below(root, servers=False)):
        found = [file for file in files if pattern.fullmatch(id_prefix(file))]
        if found:
            return tuple(dict.fromkeys(found))
    raise BadInputError(f"{name}: no such file or folder, and no bundled scenario is called so")


def has_suffix(path: Path) -> bool:
    """Return whether the name of a file is one that scenarios have."""
    return path.suffix in _SUFFIXES


def is_scenario(path: Path, *, servers: bool = False) -> bool:
    """Return whether a file declares itself, by its fields, to be of a known format, or one for servers."""
    if path.suffix not in _SUFFIXES:
        return False
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return False
    return declared_in(text, is_json=path.suffix == ".json", servers=servers)


def _below(folder: Path, *, servers: bool) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _SUFFIXES:
            continue
        try:
            str(path).encode()
        except UnicodeEncodeError:  # no report could show the name
            raise BadInputError(f"{str(path)!r}: the name is not UTF-8") from None
        if path.suffix == ".json" and any(path.with_suffix(suffix).exists() for suffix in _SUFFIXES[:2]):
            continue
        if path.is_file() and is_scenario(path, servers=servers):
            yield path
