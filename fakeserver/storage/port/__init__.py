"""The port of storage: an engine, the surroundings of a query, and the order of writes.

`engine` is the contract between commands and storage. A command fills in a `Query` or an `Update`, calls a
method of `StorageEngine`, and gets documents, a `Changed` for each change, or an `UpdateResult`;
`Explanation` is for `explain`. In the same file is `Scope`, by which an engine passes variables, collation,
random numbers and scripts on to filters, expressions and stages. `store.memory_engine` and
`store.mongomock_engine` implement the contract, and `tests/fakeserver/storage/test_engines.py` tests both.

`oplog` has operation times (`OpTime`), the entries that all members, change streams and transactions read,
and the cluster time that replies gossip. An engine never sees it: commands enter a change in their `Accept`.
"""
