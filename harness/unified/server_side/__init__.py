"""The servers' side of a case: the key `pushbackd`, which expects attempts, connections and metrics.

The key is our own; a plain unified test file does not have it. The fake servers' record of the wire is what
it is judged by, so that one expectation holds for every driver.
"""
