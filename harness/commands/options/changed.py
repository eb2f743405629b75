"""The scenario files that have changed, as git tells."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.running.discovery import BadInputError, is_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SECONDS: Final = 60


def changed(paths: Sequence[Path], base: str) -> tuple[Path, ...]:
    """Return the scenario files among `paths`, or below them, that differ from the commit `base`.

    New files count that git does not track and does not ignore. Without paths, the current folder is
    searched. Raises `BadInputError` outside of a repository, and for a commit that is not there.
    """
    found: dict[Path, None] = {}
    for path in paths or (Path(),):
        if not path.exists():
            raise BadInputError(f"{path}: no such file or folder")
        folder = path if path.is_dir() else path.parent
        for each in _differing(folder, base):
            if (path.is_dir() or each == path) and is_scenario(each):
                found[each] = None
    return tuple(sorted(found))


def _differing(folder: Path, base: str) -> Iterator[Path]:
    """Yield the files below a folder that differ, and exist."""
    if base.startswith("-") or not base:
        raise BadInputError(f"--changed: '{base}' is no commit")
    commands = (
        ("diff", "--name-only", "-z", "--relative", "--diff-filter=d", base, "--"),
        ("ls-files", "--others", "--exclude-standard", "-z"),
    )
    for command in commands:
        for name in _git(folder, *command).split("\0"):
            if name and (folder / name).is_file():
                yield folder / name


def _git(folder: Path, *command: str) -> str:
    """Return what git prints in a folder."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the commit is no option
            ("git", "-C", str(folder), *command),  # noqa: S607 - the user's git
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
    except FileNotFoundError:
        raise BadInputError("--changed needs git, which is not installed") from None
    except subprocess.TimeoutExpired:
        raise BadInputError(f"--changed: git took longer than {_SECONDS} seconds") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0].removeprefix("fatal: ")
        if "not a git repository" in said.lower():
            said = f"{folder.absolute()} is in no git repository"
        raise BadInputError(f"--changed: {said or 'git failed'}")
    return done.stdout.decode(errors="surrogateescape")
