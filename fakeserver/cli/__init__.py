"""The fake server as a program that takes the options of a mongod.

    program      from a command line to an exit code
    options      the options: one table
    values       the types of their values
    command      the options as a command of click
    config_file  the options in the file of --config
    description  the deployment that the options describe
    running      the deployment runs until a signal ends it, with its log, its control listener and its entry

Standard output gets the connection string and nothing else. The log goes to standard error, one JSON object
per line, in the format of a mongod.
"""
