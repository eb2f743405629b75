"""Logical sessions, the records of retryable writes, and transactions."""
