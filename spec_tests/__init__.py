"""Our own scenarios in the unified test format, by specification, and what drivers are known to fail."""
