"""The deployments that cases run on: embedded fake servers, and servers behind a connection string.

`embedded` starts `fakeserver` on the clock and the network of a run, in its process. `external` connects to
servers that somebody else has started, asks what they are, and cleans what cases leave. Both keep the port
`harness.adapters.deployment.Deployment`, so the runner cannot tell them apart, and the executor opens one or
the other by the name of an item's deployment. `targets` has these names, and is what the command line,
reports and expectations know of deployments.

`launching` is for commands, not for cases: servers in processes of their own, which outlive whoever started
them.
"""
