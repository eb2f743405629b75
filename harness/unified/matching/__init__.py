"""Matchers: what was observed beside what a scenario expects.

Everything here is pure: expected values of `model` and what adapters reported go in, the first `Mismatch`
with its path comes out, or None. Nothing waits, and no driver or server is known.

- `matcher` compares any two values (Unified Test Format: Evaluating Matches) and is used by all the others.
- `error_matcher` judges an error of an operation, `event_matcher` the lists of events, log messages and spans
  of a client.
- `comparison` aligns a whole list that differs, for a reader. It decides nothing: whether a case passes was
  said by the matchers before.

The runner judges operations and, at the end, lists; operations that wait for events ask `match_event` while
the case runs; `server_side` matches commands and handshakes by `match`.
"""
