"""Recording: a scenario's operations are run, and what came of them is written down as what to expect.

`recorder.py` leads, and is the only file that knows a scenario as text and as cases at once (`Source`):

1. For each case it asks `observation.py` to run the bare case (without what is to be recorded) with every
   driver on every deployment from two seeds. Each run gives a `RunObservation`.
2. `expected.py` turns the observations of a case into documents of the format: what all runs have in common,
   and operators where they differ. `observation.expected_attempts` does so for what servers saw.
3. `text.py` writes these documents as YAML and edits them into the text, which stays as it is elsewhere.
4. The edited text is read again, compared with the old one, and run with a third seed before it is returned.

The command writes the file. Where something cannot be expected, a note says so, and the rest is recorded; a
case that fails stops the recording, for what a failing run saw is no requirement.
"""
