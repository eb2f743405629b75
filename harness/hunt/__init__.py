"""Hunt: each fault at each place of a command, judged against its clean runs.

    shapes       a command -> the shape of its statement, values left out
    places       the stable name of each request of an application
    faults       the faults: at which places each applies, and whether a right client masks it
    wire         the record of a trial, which strikes the requests that are meant
    program      the command as a process
    trial        one run of the command against a deployment of its own
    documents    the final documents, up to ids and times, and what the oplog applied
    baseline     the clean runs: what is the same in all of them
    judging      an outcome against the baseline: findings
    invariants   what the user says must hold
    planning     which fault at which place comes first
    findings     what was found, and the bugs: findings, grouped by their cause
    wishes       what the user asks of a hunt, and what earlier hunts found, for the order of trials
    hunting      the loop: clean runs, trials, confirmation, within a budget
    shortening   the shortest command that finds a bug: one test of a suite
    terminal     its report for a terminal; results, page: for programs, and as a page
    writing      a test and a scenario for servers that hold a bug
    per_test     the plugin of pytest that hunts in each test

One hunt goes through `Hunt.run` in `hunting`: clean runs make a `Baseline`; `planning` yields trials, each a
tuple of `Strike`s (a fault meant for a place); a function that it was given runs one and returns an
`Outcome`; `judging` holds that against the baseline; `findings` groups what failed into bugs, which are
repeated. That function is `trial.run` for a command, and a run of one test for `per_test`; nothing else
differs between the two.

A place is named alike in every run, so a trial can be written down (`--only`, the memory of `wishes`) and
done again. Trials side by side share the baseline, which a hunt replaces and never changes. Times are
seconds.

docs/HUNT.md is the page for users.
"""
