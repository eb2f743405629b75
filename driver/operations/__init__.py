"""Builders of the commands of CRUD and of its neighbours, one family per file."""
