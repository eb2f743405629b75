"""Spans of operations and commands (`OpenTelemetry`), for those who ask for them."""
