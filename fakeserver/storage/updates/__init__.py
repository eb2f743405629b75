"""Updates: operators, replacements and pipelines.

An update statement has one of three forms, which `updating.compile_update` tells apart: operators (`{$set:
…}`), a replacement (a document without operators), or a pipeline (a list). Each becomes an `Updater`, whose
`apply` makes of a document its successor. `update_operators` has what one operator does to one value, and
how its argument is checked; it knows nothing of paths or documents, which are the business of `updating`.

`MemoryEngine` calls `compile_update` once for a statement and `apply` for each document that matches,
possibly several times for one: a long update lets other requests have their turn, and is made anew if one
of them changed the document meanwhile. Therefore `apply` changes nothing but its result and `touched`. For an
upsert, `seed` makes the first document of what the filter pins, and `with_id` gives it an `_id`. Mistakes are
`WriteError`s, which a reply lists by the statement's index instead of failing the command. To add an
operator, enter it in `OPERATORS` and, if its argument can be wrong, in `CHECKS`.
"""
