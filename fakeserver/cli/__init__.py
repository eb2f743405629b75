"""The fake server as a program that takes the options of a mongod.

    program      from a command line to an exit code
    options      the options
    config_file  the options in the file of --config
    description  the deployment that the options describe
    running      the deployment runs until a signal ends it, with its log, its control listener and its entry
    mistakes     mistakes on the command line, and exit codes

Standard output gets the connection string and nothing else. The log goes to standard error, one JSON object
per line, in the format of a mongod.
"""

from __future__ import annotations

from fakeserver.cli.description import spec_of
from fakeserver.cli.options import parser
from fakeserver.cli.program import main, options_of

__all__ = ["main", "options_of", "parser", "spec_of"]
