"""The split of a bulk write into commands: by kind, by number, and by size (CRUD: Bulk Write; Splitting)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from driver.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from driver.operations.models import WriteModel
    from driver.sdam.description import Limits

ROOM_FOR_THE_BODY = 1000
"""Bytes of a message kept for what drivers add to a command: session, cluster time, database."""


def runs(models: Sequence[WriteModel], *, ordered: bool) -> Iterator[list[tuple[int, WriteModel]]]:
    """Yield runs of models that one kind of command carries, each model with its index in the request.

    An ordered bulk write keeps the order, so a run ends where the kind changes; an unordered one has at most
    three runs. Whether a model is retryable plays no part.
    """
    indexed = list(enumerate(models))
    if not ordered:
        kinds = list(dict.fromkeys(model.verb for model in models))
        indexed.sort(key=lambda entry: kinds.index(entry[1].verb))
    for _, run in groupby(indexed, key=lambda entry: entry[1].verb):
        yield list(run)


def fitting(sizes: Sequence[int], limits: Limits, *, body_size: int = 0) -> int:
    """Return how many of the documents, from the first, one command may carry. Raises InvalidArgumentError.

    `body_size` is the size of the command without them.
    """
    # Beyond this size a server does not answer: it closes the connection.
    room = limits.max_message_size - ROOM_FOR_THE_BODY - body_size
    taken = 0
    for size in sizes[: limits.max_write_batch_size]:
        room -= size
        if room < 0:
            break
        taken += 1
    if taken == 0:
        raise InvalidArgumentError(
            f"a document of {sizes[0]} bytes does not fit into a message to this server"
        )
    return taken
