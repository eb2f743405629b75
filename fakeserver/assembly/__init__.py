"""The top of a deployment: how its parts are put together, started, described, and run in a thread."""
