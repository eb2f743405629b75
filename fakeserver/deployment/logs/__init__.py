"""Logs: the lines of a server's log, and the operations that its profiler records."""
