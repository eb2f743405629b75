"""The commands for replica sets and sharded clusters, sessions and transactions."""
