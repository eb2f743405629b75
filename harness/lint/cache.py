"""A cache of findings, for files that have not changed since.

A file is known again by the hash of its bytes and of those of its JSON copy, which a rule compares with it.
All is forgotten when the rules themselves change: another release, or other source files.

Checking a large checkout takes seconds and most of its files never change. An entry is one JSON row for a
file; the key includes the rules that were asked for, as a selection finds less. The cache may be deleted at
any time, and one that cannot be read is as good as none.
"""

from __future__ import annotations

from dataclasses import astuple
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.lint.findings import Finding
from harness.lint.json_copy import copy_of
from harness.world.cache_folder import read_cached, write_cached
from mongowire.package import version

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME: Final = "lint.json"
_MOST_FILES: Final = 20_000
_DECIDING: Final = (
    *("harness/lint", "harness/unified", "harness/formats", "harness/adapters/base.py"),
    *("fakeserver/settings", "fakeserver/control", "mongowire"),
)
"""What decides what is found, besides the release: the rules, and the names that they know."""


class FindingsCache:
    """The findings of files, by the ids of the rules; used from one thread, and saved at the end."""

    def __init__(self, rules: frozenset[str]) -> None:
        self._rules = ",".join(sorted(rules))
        self._version = _version()
        document = read_cached(_NAME)
        is_ours = isinstance(document, dict) and document.get("version") == self._version
        self._files: dict[str, Any] = document["files"] if is_ours else {}
        self._is_new = False

    def key(self, path: Path) -> str:
        """Return what a file is known by; empty for one that cannot be read."""
        digest = blake2b(self._rules.encode(), digest_size=16)
        try:
            digest.update(path.read_bytes())
            copy = copy_of(path)
            digest.update(b"" if copy is None else b"\0copy" + copy.read_bytes())
        except OSError:
            return ""
        return digest.hexdigest()

    def get(self, path: Path, key: str) -> list[Finding] | None:
        """Return what was found in a file, None when it is not known."""
        known = self._files.get(_name(path))
        if not key or known is None or known[0] != key:
            return None
        return [Finding(str(path), *fields) for fields in known[1]]

    def put(self, path: Path, key: str, findings: Sequence[Finding]) -> None:
        """Keep what was found in a file."""
        # A finding about another file, such as a JSON copy, would be found again under this one's name.
        if key and all(each.path == str(path) for each in findings):
            self._files[_name(path)] = [key, [astuple(each)[1:] for each in findings]]
            self._is_new = True

    def save(self) -> None:
        """Write what is new; the oldest entries of very many files are dropped."""
        if self._is_new:
            kept = dict([*self._files.items()][-_MOST_FILES:])
            write_cached(_NAME, {"version": self._version, "files": kept})


def _name(path: Path) -> str:
    return str(path.absolute())


def _version() -> str:
    packages = Path(__file__).parent.parent.parent
    sources = (
        source
        for name in _DECIDING
        for source in (sorted((packages / name).rglob("*.py")) or [packages / name])
    )
    # Sizes and times instead of hashes: reading all sources would take longer than checking a few files.
    states = ((state.st_size, state.st_mtime_ns) for state in (source.stat() for source in sources))
    return blake2b(repr((version(), *states)).encode(), digest_size=16).hexdigest()
