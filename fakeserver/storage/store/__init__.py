"""The store: collections with their documents, indexes and options."""
