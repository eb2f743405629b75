"""Matchers: what was observed beside what a scenario expects."""
