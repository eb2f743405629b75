"""The registry of running servers: a folder with a file for each, which says how to reach its control.

The folder is `$PUSHBACKD_HOME`, else `$XDG_STATE_HOME/pushbackd`, else `~/.local/state/pushbackd`. Only its
owner can read it, because a file holds the token of a control listener. A file may outlive its server:
whether the server runs, its control listener tells (`fakeserver.control.client`), never a process id, which
another process may have by now.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mongowire.documents.errors import ControlError
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME_VARIABLE: Final = "PUSHBACKD_HOME"
ID_VARIABLE: Final = "PUSHBACKD_ID"

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CONTROL: Final = re.compile(r"unix:.+|tcp:[^:]+:\d{1,5}|tcp:\[?[0-9a-fA-F:.]+\]?:\d{1,5}", re.DOTALL)
_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_MOST_TRACES: Final = 20
_SOCKET_PATH_MAX: Final = 100
"""The bytes that a path of a Unix socket may have on every system."""


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A server in the registry.

    `control` is `unix:PATH` or `tcp:HOST:PORT`; `started` the date of its start (UTC, ISO 8601); `log` the
    file of its log, "" where that goes to standard error; `page` the address of its live page, with the token
    of that, "" where it has none.
    """

    id: str
    pid: int
    uri: str
    topology: str
    control: str
    token: str
    log: str = ""
    started: str = ""
    page: str = ""


class Registry:
    """The entries in a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = home(os.environ) if folder is None else folder

    def file(self, id: str) -> Path:  # noqa: A002 - the field's name
        """Return the file of an entry."""
        return self.folder / f"{id}.json"

    def log_file(self, id: str) -> Path:  # noqa: A002 - as above
        """Return the file for the log of a server that runs in the background."""
        return self.folder / f"{id}.log"

    def socket_file(self, id: str) -> Path | None:  # noqa: A002 - as above
        """Return the path for the Unix socket of a server; None where the folder's path is too long."""
        path = self.folder / f"{id}.sock"
        return path if len(os.fsencode(path)) <= _SOCKET_PATH_MAX else None

    def trace_file(self, id: str) -> Path:  # noqa: A002 - as above
        """Return the file for the page of a server's run."""
        return self.folder / f"{id}.html"

    def keep_trace(self, id: str, page: str) -> Path:  # noqa: A002 - as above
        """Keep the page of a run, with the newest of others; return its path. Raises `OSError`."""
        path = self.trace_file(id)
        write_whole(path, page, mode=_PRIVATE_FILE)
        newest = sorted(self.folder.glob("*.html"), key=lambda each: each.stat().st_mtime_ns, reverse=True)
        for each in newest[_MOST_TRACES:]:
            each.unlink(missing_ok=True)
        return path

    def prepare(self) -> None:
        """Make the folder, for its owner alone. Raises `OSError`."""
        self.folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)

    def write(self, entry: RegistryEntry) -> None:
        """Enter a server, in place of another of the same id. Raises `OSError`."""
        self.prepare()
        write_whole(self.file(entry.id), json.dumps(asdict(entry), indent=2) + "\n", mode=_PRIVATE_FILE)

    def remove(self, id: str) -> None:  # noqa: A002 - as above
        """Remove an entry and its socket, if they are there. Its log stays."""
        for path in (self.file(id), self.socket_file(id)):
            if path is not None:
                path.unlink(missing_ok=True)

    def discard(self, id: str) -> None:  # noqa: A002 - as above
        """Remove everything of an entry, its log and its page too."""
        self.remove(id)
        self.log_file(id).unlink(missing_ok=True)
        self.trace_file(id).unlink(missing_ok=True)

    def read(self, id: str) -> RegistryEntry | None:  # noqa: A002 - as above
        """Return an entry; None where there is none that can be read."""
        try:
            found = json.loads(self.file(id).read_bytes())
            entry = RegistryEntry(
                **{field.name: found[field.name] for field in fields(RegistryEntry) if field.name in found}
            )
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        texts = (getattr(entry, field.name) for field in fields(RegistryEntry) if field.name != "pid")
        is_sound = (  # it is what a server wrote, and no file of somebody else
            all(type(text) is str and "\0" not in text for text in texts)
            and type(entry.pid) is int
            and _CONTROL.fullmatch(entry.control) is not None
        )
        return entry if entry.id == id and is_sound else None

    def ids(self) -> list[str]:
        """Return the ids of all files, in order, those that cannot be read too."""
        files = (path for path in self.folder.glob("*.json") if path.is_file())
        return sorted(path.stem for path in files if _ID.fullmatch(path.stem))

    def entries(self) -> list[RegistryEntry]:
        """Return the entries, in order of their ids; of servers that ended unseen, too."""
        return [entry for entry in map(self.read, self.ids()) if entry is not None]

    def fresh_id(self, topology: str) -> str:
        """Return an id that no entry has."""
        taken = set(self.ids())
        while True:
            name = f"{topology}-{secrets.token_hex(2)}"
            if name not in taken:
                return name


def home(environment: Mapping[str, str]) -> Path:
    """Return the folder of the registry."""
    if own := environment.get(HOME_VARIABLE):
        return Path(own).absolute()
    state = environment.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "pushbackd"


def check_id(name: str) -> str:
    """Return an id that can name files. Raises `ControlError`."""
    if not _ID.fullmatch(name):
        raise ControlError(
            f"{name!r} is no id; write 1 to 64 letters, digits, dots, hyphens and underscores, a letter or a"
            " digit first"
        )
    return name
