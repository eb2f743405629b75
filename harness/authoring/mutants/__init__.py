"""Mutation testing: wrong drivers and wrong servers, and which scenarios and tests find them.

The order of work, and the file for each step:

1. `mutant.py` reads the YAML files of `catalogue` into `Mutant`s and applies their changes to source texts.
2. `survey.py` runs the cases once without a mutant, in forks whose code notes the lines that it comes by.
   Only cases that pass and that reach the changed lines are worth a trial.
3. `matrix.py` chooses and orders the cases of each mutant, in one round or three, and keeps the verdicts.
4. `trial.py` forks a process for each mutant, hears from it, and ends it when it hangs.
5. `overlay.py` makes that process the mutant: it swaps code in loaded modules, or has them imported anew.
6. `page.py` writes the outcome as HTML.

Between processes go `Item`s as documents one way, and tuples `("begins", index)`,
`("killed", index, reason)`, `("ended",)` and `("broken", reason)` the other. `harness.authoring.proposals`
uses steps 4 and 5 with mutants that it makes itself, and `tests/support/mutant_matrix.py` adds suites that
are no scenarios.
"""
