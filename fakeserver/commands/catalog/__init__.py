"""The commands for databases, collections, views and indexes."""
