"""A run: a plan of items in, the processes and deployments that run them, and their results."""
