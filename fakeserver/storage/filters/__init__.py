"""Filters: query operators, schemas, text and geographic searches.

`matching.compile_filter` is the way in. It reads a filter once, refuses what is malformed (mostly 2,
BadValue), and returns a predicate on documents, which scans, `$match`, validators and partial indexes call
for each of theirs. Predicates keep no state between documents, except for what searches note in
`Scope.metadata`.

* `matching` takes filters apart: `$and`, `$or`, paths, negations, arrays. `match_operators` has the tests
  of one value that it calls in the end (`$gt`, `$in`, `$type`).
* `schema` is `$jsonSchema`, and `validation` has the validators of collections with the details of a
  failure.
* `geo_operators` has `$near`, `$geoWithin` and `$geoIntersects`, on the shapes of `geo_shapes`;
  `text_search` is `$text`. These three and `schema` are imported when a filter first has one of their
  operators.
* `positional` finds the array elements that an update or a projection means by `a.$` and `a.$[x]`.

`$expr` and `$where` leave for the folder `expressions`. But for `$text`, nothing here knows indexes:
`storage.plans` chooses which documents a filter is asked about, never what it says of them.
"""
