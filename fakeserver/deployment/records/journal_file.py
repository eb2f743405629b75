"""The journal as a file: a line of JSON for each record, written as it comes."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from bson import json_util

if TYPE_CHECKING:
    from fakeserver.deployment.records.record import Record

_LOGGER: Final = logging.getLogger(__name__)


class JournalFile:
    """Appends records, with the documents of requests and replies, to a file.

    A file that cannot be written to any more is given up, and the deployment goes on.
    """

    def __init__(self, path: str) -> None:
        """Check that the file can be written to. Raises `OSError`."""
        self._path = Path(path)
        self._path.open("a").close()
        self._file: IO[str] | None = None
        self._given_up = False

    def write(self, record: Record) -> None:
        """Write a record, which is in the file when this returns."""
        if self._given_up:
            return
        document = record.to_document(documents=True)
        line = json_util.dumps(document, json_options=json_util.RELAXED_JSON_OPTIONS)
        try:
            if self._file is None:
                self._file = self._path.open("a", buffering=1, encoding="utf-8")
            self._file.write(line + "\n")
        except OSError as error:
            self._given_up = True
            _LOGGER.error("the journal's file is given up: %s", error)  # noqa: TRY400 - one line says it all
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None
