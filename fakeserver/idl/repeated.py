"""Fields that stand twice in a document: its bytes show both, what is decoded has the last one alone."""

from __future__ import annotations

from typing import Any, Final

import bson
from bson import CodecOptions, DatetimeConversion


class Noticing(dict[str, Any]):
    """A document that notices a key that it gets twice."""

    repeated: str | None = None
    """The first such key."""
    earlier: tuple[tuple[str, Any], ...] = ()
    """What stood there before, in order."""

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self:
            if self.repeated is None:
                self.repeated = key
            self.earlier = (*self.earlier, (key, self[key]))
        super().__setitem__(key, value)


_NOTICING: Final = CodecOptions(document_class=Noticing, datetime_conversion=DatetimeConversion.DATETIME_AUTO)


def noticing(body: bytes) -> Noticing:
    """Decode a document, with all documents within it, as such."""
    return bson.decode(body, codec_options=_NOTICING)
