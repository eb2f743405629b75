"""The commands of `pushbackd`: their options, and what each does.

`harness.cli` finds a command by its name in `subcommands`, imports the one module that has it, and turns what
it returns or raises into an exit code. So a module of commands is imported for its own command line alone,
and what is slow to load (drivers, servers, `rich`) is imported inside of the function that needs it: a help
text and the completion of the shell do without.

A command works in the same five steps. `options` has the options that several commands share, with the types
of their values. `options.pairs` refuses two options of which one would be dropped. Files that will be written
are tried before long work begins. The work itself is a call of a floor below: `harness.running`, `overload`,
`hunt`, `sim` or `authoring`. What comes back is printed, and becomes an `ExitCode`.

`output` turns errors about what the user named into one line and exit code 2; whatever else leaves a command,
but for a full disk or a signal, is reported as a defect of pushbackd. `servers` and `simulations` are the
folders of commands about servers and of `pushbackd simulate`.

Docstrings of commands are their help texts, which docs/COMMAND-LINE.md repeats; reasons stand in comments.
"""
