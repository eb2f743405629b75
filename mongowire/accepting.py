"""A listening socket that goes on when the process may open no file more (`EMFILE`)."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})


class SparingSocket(socket.socket):
    """Keeps a file in reserve. Without another to accept a connection with, it uses that one to refuse it.

    asyncio would leave the connection in the queue, say so as often as the queue is long, and look again
    after a second; the client would wait for an answer that does not come.
    """

    refused: Callable[[], None] | None = None
    """Called for each connection that was refused."""
    _spare: int | None = None
    _gave_up = False

    def keep_spare(self) -> None:
        """Open the file that is kept. Raises `OSError`."""
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises `BlockingIOError` when there is none, or it was refused."""
        try:
            accepted = super().accept()
        except OSError as error:
            if error.errno not in _OUT_OF_FILES:
                raise
            self._refuse(error)
            raise BlockingIOError(errno.EAGAIN, "it was refused") from None
        self._gave_up = False
        return accepted

    def _refuse(self, error: OSError) -> None:
        """Accept a connection with the spare file, and close it. Raises `error` where there is none."""
        if self._spare is None:
            with suppress(OSError):
                self.keep_spare()
        if self._spare is None:
            # Somebody else took the file. asyncio looks again in a second, and would complain for each of a
            # queue's connections until then: once is enough.
            self._gave_up = not self._gave_up
            if self._gave_up:
                raise error
            return
        os.close(self._spare)
        self._spare = None
        with suppress(OSError):
            super().accept()[0].close()
            if self.refused is not None:
                self.refused()
        with suppress(OSError):
            self.keep_spare()

    def close(self) -> None:
        """Close it, and the file in reserve."""
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        super().close()
