"""Expressions of aggregation, with their operators and accumulators."""
