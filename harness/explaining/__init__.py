"""Explanations of a case: its timeline, its likely cause, and how expectation and fact differ.

The executor (`harness.running.executor`) calls these parts when a case has ended, in this order. `journal`
merges what clients and servers did into one `CaseTimeline`. Of a case that failed, `seen_case` then reads
what servers saw, and `causes` looks for likely causes in both. `explanation.explained` puts rows, timeline
and causes into the `Result`, and `blame` says for a driver in another process whether the adapter may be
wrong instead.

Finders of causes stand by what they look at: `causes` at events and errors, `attempt_causes` and
`server_causes` at comparisons that a scenario asks for, `breaches` at the servers' record whatever the
scenario expects. A new cause is a function in one of the four tables `_FINDERS` and `_OF_CONNECTIONS`.

Reports read results later, without the case: `explanation` and `journal` make lines of them, `sequence` the
rows of a diagram, which `harness.report.picture` draws. `text` has what all of them write alike.
`kill_matrix` reads which wrong driver fails which bundled case.
"""
