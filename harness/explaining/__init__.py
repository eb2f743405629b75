"""Explanations of a case: its timeline, its likely cause, and how expectation and fact differ."""
