"""The rules of the specifications, the scenarios that show each, and what drivers made of them.

`rulebook` reads the rules of `rules.yml` and the comments by which bundled scenarios say which rules they
show. `table` turns results into a verdict for each rule and driver, `page` writes the table as HTML for
`pushbackd drivers`. The reports of a run ask `rulebook` too: `harness.report.terminal` prints the rules that
failed cases show, `harness.report.diagnosis` groups by them.
"""
