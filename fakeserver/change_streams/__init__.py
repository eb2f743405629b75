"""Change streams: the oplog as events, from any position in it (`Change Streams`)."""
