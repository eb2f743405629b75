"""Stages of pipelines, and projections.

A stage is compiled once, when its command is parsed, and run for each batch of documents: a function from a
list of documents to a list (`PipelineStage`), or a `Flowing` one, which takes them one by one.
`pipeline_stages` is the way in. It has the table of all stages, compiles the short ones itself and asks the
other files for the rest; `flow` runs what was compiled.

`bucketing` has the stages that gather (`$group`, `$bucket`, `$bucketAuto`), `lookup` those that read
another collection, `projecting` the projections of `find`, `$project` and `$redact`, `rank_fusion` and
`geo_near` the two that may only begin a pipeline. `$setWindowFields` and `$fill` are three files:
`window_fields` parts and sorts the documents, `window_bounds` says which neighbours a document sees,
`window_functions` computes. `densifying` makes up documents that are missing.

Everything that a stage knows of its surroundings (variables, collation, other collections, dice, release)
comes in a `Scope`; no stage knows the engine or the command. Mistakes in a stage's argument raise
`CommandError` while it is compiled, mistakes of a document while it runs. Documents that come in belong to
the collection: a stage makes new ones and changes none.
"""
