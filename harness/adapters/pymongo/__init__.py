"""PyMongo's two APIs behind the runner, and its connections to servers that are not ours.

PyMongo is loaded by the modules, not by the package: most runs do without it.
"""


class ChannelError(Exception):
    """There is no reply: nobody answers, nobody may be asked, or the connection string is not valid."""
