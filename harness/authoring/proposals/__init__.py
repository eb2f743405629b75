"""Rules that do not exist yet: proved by a patch of the reference driver, and written for a pull request.

`pushbackd propose` goes through these files in this order (docs/PROPOSE.md is the guide for its users):

1. `rule.py` reads the rule and the patch, and refuses what cannot be used, with line and field.
2. `neighbours.py` makes wrong drivers of the patch. It asks `place.py` which nodes of a file's tree are new,
   and has each of the `operators.py` do one of these wrong.
3. `proving.py` runs the scenarios with the patch, without it, and with each neighbour, by the engine of
   `harness.authoring.mutants`; the outcome is a `Proof`.
4. `obedience.py` makes the table of who obeys today, of the proof and of real drivers where they are asked.
5. `folder.py` writes proof and table as files, and as the document of `--json`.

A new way to be wrong is an operator (a node of the tree) or a `Fact` (a condition on the whole patch);
nothing else has to know of it. No file of the driver is written: patched texts live in memory and in forks.
"""
