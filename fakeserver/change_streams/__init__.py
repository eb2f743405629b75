"""Change streams: the oplog told as events, from any point of it (`Change Streams`)."""
