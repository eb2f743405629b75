"""Commands that start a fake deployment, run a program with it, list and end those that run.

`serve` is the server itself, in this process. `background` has the commands of servers in other processes:
`start`, `stop`, `ls`, `prune` and `open` work by the registry (`fakeserver.control.registry`), a folder with
an entry for each server that runs. `exec` runs a program with a server of its own and ends with a verdict;
`drill` does the same with trouble that it makes itself, and `demo` with a shop that it brings along.

Starting and ending are in `harness.deployments.launching`; the options of `start` and `exec` are in
`harness.commands.options.starting`, those of verdicts in `harness.commands.options.verdict`.
"""
