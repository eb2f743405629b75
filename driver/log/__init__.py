"""Structured log messages, through Python's `logging`: nothing is made of a message that nobody asked for."""
