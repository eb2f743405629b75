"""Filters: query operators, schemas, text and geographic searches."""
