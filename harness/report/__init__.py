"""Reports of runs: for terminals, CI servers (JUnit, GitHub), programs (JSON Lines) and browsers (HTML).

All of them are made of `Result`s and the `Settings` of their run (`harness.planning`), never of cases,
servers or drivers, so that a report can be made of a file as well as of a run. `harness.running.conformance`
hands each result to `outputs`, which owns the files that grow with the run, and at the end prints
`terminal`'s report and writes `junit` and `github`. `progress` shows meanwhile how far the run is, on
standard error.

`results_file` writes and reads results. `pushbackd report` fills a `matrix` from such files, which `page`
packs into one HTML file together with the pictures of `picture`; `pushbackd drivers` does the same with
`rules`.

Others are parts of these: `diagnosis` groups failures, `skips` the reasons of skipped cases, `rerun` writes
the command lines that repeat a case, `fitting` wraps lines and tables for a terminal's width. `pages` has the
frame, the charts and the styles of every page, `html` the script and the style of the report.
"""
