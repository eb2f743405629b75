"""Replication: the state of a set, the positions of its members, and rollback."""
