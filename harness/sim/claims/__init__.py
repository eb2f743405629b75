"""Claims of the specifications about overload, each as scenarios of a fleet that differ in one thing.

`catalogue` has the claims, `measuring` runs their sides, `drawing` makes the figures.
"""
