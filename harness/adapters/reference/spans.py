"""The reference driver's spans, as OpenTelemetry's SDK hands them over.

A provider for each client keeps its spans apart from those of other clients, and from any that the process
has set up. Spans are delivered when they end, children first; `order` is when they began.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from bson import Int64, json_util
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from driver.tracing.options import TracingOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    Deliver = Callable[[dict[str, Any]], None]


def tracing(deliver: Deliver, *, query_text_length: int) -> TracingOptions:
    """Return options of a client whose spans are delivered as they end."""
    provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(_Collector(deliver))
    return TracingOptions(query_text_length=query_text_length, provider=provider)


class _Collector(SpanProcessor):
    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._order = count()
        self._began: dict[int, int] = {}

    def on_start(self, span: ReadableSpan, parent_context: Any = None) -> None:  # noqa: ARG002 - OpenTelemetry's
        self._began[_id(span.context)] = next(self._order)

    def on_end(self, span: ReadableSpan) -> None:
        number = _id(span.context)
        # As BSON: numbers have 64 bits, and a session's id is a document, not text.
        words: dict[str, Any] = {
            name: Int64(value) if type(value) is int else value
            for name, value in (span.attributes or {}).items()
        }
        if "db.mongodb.lsid" in words:
            words["db.mongodb.lsid"] = json_util.loads(words["db.mongodb.lsid"])
        self._deliver(
            {
                "id": number,
                "parent": None if span.parent is None else _id(span.parent),
                "name": span.name,
                "attributes": words,
                "order": self._began.pop(number),
            }
        )


def _id(context: Any) -> int:
    return int(context.span_id)
