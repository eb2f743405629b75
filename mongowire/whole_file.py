"""Files that are whole or not there: written beside, and renamed at the end.

A disk that is full, or a program that is ended, leaves what was there before.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNFINISHED: Final[set[Path]] = set()
_NUMBERS: Final = itertools.count()
_NAME_MAX: Final = 100
"""The bytes of a name that go into that of the file beside it: file systems allow 255."""


@contextmanager
def beside(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Give the path of a new file in the folder of `path`, which takes its place when the block ends well.

    Folders are made. A link is followed; the permissions of a file that is replaced are kept, those of a new
    one are `mode`, less what the process's umask takes away. What is no file (a pipe, a device) is written to
    directly. Raises `OSError`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from error
    found = _mode_of(path)
    if found is not None and not stat.S_ISREG(found):
        yield path
        return
    target = Path(os.path.realpath(path))
    mode = mode if found is None else stat.S_IMODE(found)
    name = os.fsdecode(os.fsencode(target.name)[:_NAME_MAX])
    temporary = target.with_name(f".{name}.{os.getpid()}-{next(_NUMBERS)}")
    _UNFINISHED.add(temporary)
    try:
        try:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        except OSError as error:
            error.filename = str(path)  # nobody asked for the file beside it
            raise
        yield temporary
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        _UNFINISHED.discard(temporary)


def write_whole(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write a file with this content, text in UTF-8 as it is, or leave what was there. Raises `OSError`."""
    data = content.encode() if isinstance(content, str) else content
    with beside(path, mode=mode) as temporary:
        temporary.write_bytes(data)


def _mode_of(path: Path) -> int | None:
    """Return what a file is and who may use it, None if it is not there. Raises `OSError` for a folder."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return mode


def check_writable(path: Path) -> None:
    """Find out whether a file can be written here, without a change to it. Raises `OSError`."""
    with suppress(_DroppedError), beside(path) as temporary:
        if temporary != path:
            raise _DroppedError


class _DroppedError(Exception):
    """The file was made to be dropped."""


def remove_unfinished() -> None:
    """Remove what is being written now, for a program that leaves in the middle of it."""
    for temporary in tuple(_UNFINISHED):
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def disown_unfinished() -> None:
    """Leave what is being written now to another process: this one is a fork of it."""
    _UNFINISHED.clear()
