"""The simulations of `pushbackd simulate`, a module each.

`harness.commands.simulate` loads a module by the name of its command. Each declares options, calls one
package below (`harness.overload` for `claim`, `governed`, `overload`, `probing` and `rate-limiter`;
`harness.sim` for `article`, `swarm` and `sweep`) and prints what that returns. `reporting` has the options
and the steps that they share: files are tried before the work and written after it, and `--json` prints the
numbers that the table shows.

All take a seed or are the same in each run: equal options give equal numbers, but for those with `--live`.
"""
