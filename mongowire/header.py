"""The sixteen bytes in front of every message."""

from __future__ import annotations

import struct
from enum import IntEnum

HEADER = struct.Struct("<iiii")
"""messageLength, requestID, responseTo, opCode."""

HEADER_SIZE = HEADER.size
MAX_MESSAGE_SIZE = 48_000_000


class OpCode(IntEnum):
    """The operation codes that are, or once were, sent to servers."""

    REPLY = 1
    UPDATE = 2001
    INSERT = 2002
    QUERY = 2004
    GET_MORE = 2005
    DELETE = 2006
    KILL_CURSORS = 2007
    COMPRESSED = 2012
    MSG = 2013
