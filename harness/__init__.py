"""The conformance harness: unified test format scenarios against any driver, in real or virtual time."""
