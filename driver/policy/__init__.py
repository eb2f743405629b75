"""Pure decisions about sending a command again: time and jitter are arguments, and nothing waits."""
