"""The settings of a server, at its start and at run time: server parameters and fail points."""
