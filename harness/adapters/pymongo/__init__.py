"""PyMongo's two APIs behind the runner, and its connections to servers that are not ours.

`blocking` and `asynchronous` are the two adapters. What differs between the APIs is there: where calls run,
how events reach the runner's loop, how a transaction's callback is called. All else is shared: `base` has
entities, sessions and the life of clients, `operations` the table of methods, `arguments` and `results` the
translation in each direction, `events` listeners and log messages, `pools` the pool by itself.

`channel` is no adapter. External deployments (`harness.deployments.external`) send their own commands by it.

PyMongo is loaded by the modules, not by the package: most runs do without it. Where no public name gives what
a scenario asks, its private ones are used; they change between releases, so each such line is marked
(`SLF001`).
"""


class ChannelError(Exception):
    """There is no reply: nobody answers, nobody may be asked, or the connection string is not valid."""
