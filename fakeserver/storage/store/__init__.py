"""The store: collections with their documents, indexes and options.

* `memory_engine`: the engine of a deployment, behind `port.engine.StorageEngine`. Start with its head.
* `collection_state`: one collection of it: documents by key, indexes, sizes; which plan is chosen, what it
  reads, how an index is built while others write.
* `scanning`: from a `Query` to documents: lookups without a plan, scans, sorts, skip and limit.
* `catalog`: what collections, views and indexes there are, with their options. Commands ask it for a
  collection first, then `catalog.engine` for documents; it keeps the two in step.
* `time_series`: options and order of measurements. `mongomock_engine`: the other engine, chosen by name.

Nothing here yields between the check of a change and its store, and no stored document is ever altered: a
fork, a reader that gave way and an oplog entry rely on both.
"""
