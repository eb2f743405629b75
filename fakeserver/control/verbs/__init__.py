"""Verbs: their form, their families, and the one table of them."""
