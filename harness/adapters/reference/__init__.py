"""The reference driver behind the runner."""
