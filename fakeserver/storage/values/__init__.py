"""Values of BSON and documents: their types, order, arithmetic, text, size and paths.

Nothing here knows a query, a collection or a clock. All other rooms stand on these files:

* `types`: what BSON type a Python value is, its place in the order of all values (`order`), equality
  (`identity`), copies. Start here. `MISSING` is what a path that leads nowhere has.
* `paths` reads and writes dotted paths: queries, expressions and updates enter arrays each in their own way.
  `rows` reads several paths at once, which makes the keys of indexes and sorts; `sorting` compares those.
* `arithmetic` keeps number types, `decimal_functions` computes with 34 digits.
* `dates` (any year), `calendar` (units, zones, formats) and `free_dates` (text without a format).
* `collation` turns strings into keys; its function is handed around as `fold`.
* `stored` is a document with its BSON beside it; `metadata` holds text scores and distances.
* `limits` bounds sizes and memory; `pacing` puts yield points into long loops; `printing` is for messages.
"""
