"""A deployment that runs: its servers, their replica sets and shards, and what they record."""
