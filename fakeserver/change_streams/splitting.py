"""`$changeStreamSplitLargeEvent`: an event that no message can hold, in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import bson

from fakeserver.change_streams.tokens import ResumeToken
from fakeserver.storage.values.sizes import MAX_USER_BYTES, invalid_size

if TYPE_CHECKING:
    from bson import Binary

    from fakeserver.change_streams.tokens import StreamPosition
    from fakeserver.storage.port.engine import Document

_ROOM_FOR_HEAD: Final = 1024


def split(
    event: Document, position: StreamPosition, uuid: Binary | None, *, limit: int = MAX_USER_BYTES
) -> list[tuple[StreamPosition, Document]]:
    """Return the fragments of an event larger than `limit` bytes, each with its position.

    Top-level fields go whole, in their order, each into the first fragment that has room.
    Raises `CommandError` 10334 for a field that fits into none.
    """
    parts: list[Document] = [{}]
    room = limit - _ROOM_FOR_HEAD
    for name, value in event.items():
        if name == "_id":
            continue
        size = len(bson.encode({name: value}))
        if size > limit - _ROOM_FOR_HEAD:
            raise invalid_size(size)
        if size > room:
            parts.append({})
            room = limit - _ROOM_FOR_HEAD
        parts[-1][name] = value
        room -= size
    fragments: list[tuple[StreamPosition, Document]] = []
    for number, part in enumerate(parts, 1):
        own = position._replace(fragment=number)
        head: Document = {"_id": ResumeToken(own, uuid).document}
        head["splitEvent"] = {"fragment": number, "of": len(parts)}
        fragments.append((own, {**head, **part}))
    return fragments
