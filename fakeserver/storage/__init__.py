"""Storage: the documents of a deployment, and the query language that reads and changes them.

Nine rooms, from the ground up; each imports those above it in this list only:

    values       BSON values: types, order, equality, arithmetic, dates, collations, paths, limits
    scripts      JavaScript, for `$where`, `$function`, `$accumulator` and `mapReduce`
    port         the contract of an engine (`StorageEngine`), the surroundings of a query, the oplog
    expressions  `$add`, `$cond`, ...: compiled to functions of the variables of one evaluation
    filters      `{a: {$gt: 1}}`, `$text`, `$near`, `$jsonSchema`: compiled to predicates on documents
    stages       `$group`, `$lookup`, ... and projections: functions of the documents before them
    updates      `$set`, `$push`, ..., replacements, pipelines: a new document made of an old one
    plans        index keys, bounds of a filter, the choice of an index
    store        the collections: the engines behind the port, and the catalog beside them

Commands (`fakeserver.commands`) speak to `port` and to `store.catalog`. A find goes from `MemoryEngine.find`
to `scanning.select`, which compiles the filter, asks the collection for a plan, reads by it, and sorts. An
update goes from there to `updates`, back to the collection's indexes, and through `accept` into the oplog.

Compile once, run for each document: what is wrong with a query is found before a document is read, so an
error does not depend on the data, and the inner loop is a call of a function.
"""
