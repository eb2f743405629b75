"""Options that commands share, and the types of their values.

`types` has the types: each refuses a wrong value with a sentence, and completes what it knows in the shell.
`common` has options of several commands (driver, edition, seed, colours) and `Options`, the whole command
line of `conform`, whose other options stand by what they choose: `deployment` the servers, `selecting` the
cases, `naming` cases by name, `flaky` repetition and disturbance. `pairs` says which options exclude each
other.

For commands about servers, `starting` turns options into arguments of `serve`, `rule` makes a rule of
options, and `verdict` tells how a run ended.

A file gives a command its options by a decorator, and functions that read the parsed values afterwards. They
raise `click.UsageError` for what only the command line can contradict, and `ClickException` for what it
names.
"""
