"""The bytes of a reply, and what it is made of."""

from __future__ import annotations

from typing import Any

import bson
from bson import Int64
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.request.response import Response
from mongowire.connection import WireConnection
from mongowire.framing import elements_of
from mongowire.messages import OpMsg

NAMES = st.sampled_from(["ok", "n", "cursor", "value", "writeErrors", ""])
VALUES = st.sampled_from([1, 1.0, Int64(2), "text", None, {"firstBatch": [{"_id": 1}]}, [1, 2], b"bytes"])
BODIES: st.SearchStrategy[dict[str, Any] | None] = st.none() | st.dictionaries(NAMES, VALUES, max_size=4)
ELEMENTS = st.sampled_from([b"", elements_of(bson.encode({"operationTime": 1, "$clusterTime": {"a": 1}}))])
CONCERNS = st.sampled_from([None, None, {"code": 64, "errmsg": "x"}])
FAILURES = st.sampled_from([None, None, CommandError(59, "no such command", extra={"more": 1})])
EXTRAS = st.sampled_from([None, None, {"errorLabels": ["RetryableWriteError"]}])


@given(body=BODIES, gossip=ELEMENTS, concern=CONCERNS, failure=FAILURES, extra=EXTRAS)
def test_the_message_of_a_reply_is_its_document_behind_a_header(
    body: dict[str, Any] | None, gossip: bytes, concern: Any, failure: CommandError | None, extra: Any
) -> None:
    response = Response()
    response.body, response.gossip, response.failure = body, gossip, failure
    response.write_concern_error, response.extra = concern, extra
    whole = WireConnection().send(OpMsg(response.encode()), request_id=3, response_to=7)
    assert response.message(3, 7) == whole
