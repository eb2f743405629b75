"""A run: scenario files in, a plan of items, the processes that run them, and their results."""
