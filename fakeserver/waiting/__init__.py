"""The waits of requests, and the turns of those that take long."""
