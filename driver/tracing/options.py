"""Options of tracing: whether operations are traced, and how much of their commands is shown.

Nothing here needs OpenTelemetry: what does is imported when it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from driver.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.tracing.spans import Tracing

ENABLED: Final = "OTEL_PYTHON_INSTRUMENTATION_MONGODB_ENABLED"
QUERY_TEXT_LENGTH: Final = "OTEL_PYTHON_INSTRUMENTATION_MONGODB_QUERY_TEXT_MAX_LENGTH"
_TRUE: Final = frozenset({"1", "on", "true", "yes"})


@dataclass(frozen=True, slots=True)
class TracingOptions:
    """OpenTelemetry: Enabling and Disabling OpenTelemetry. A client's own options win over the environment.

    Commands are shown up to `query_text_length` characters, not at all if that is 0. Without a `provider` of
    tracers it is the one that the program has set for itself.
    """

    enabled: bool = True
    query_text_length: int = 0
    provider: Any = None

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> TracingOptions:
        """Return what an environment asks for: nothing, unless it says so."""
        length = environment.get(QUERY_TEXT_LENGTH, "")
        enabled = environment.get(ENABLED, "").lower() in _TRUE
        return cls(enabled, int(length) if length.isdecimal() else 0)

    def tracing(self) -> Tracing | None:
        """Return what makes spans, or None. Raises ConfigurationError without OpenTelemetry."""
        if not self.enabled:
            return None
        try:
            from driver.tracing.spans import Tracing  # noqa: PLC0415 - most clients are not traced
        except ImportError as error:
            raise ConfigurationError("tracing needs opentelemetry-api: pushbackd[otel]") from error
        return Tracing.of(self.provider, self.query_text_length)
