"""Static checks of scenario files: what is wrong, suspicious or left over, without a run.

`engine` is the way in: `lint_files` for the command, `flaws` for a run, which fails the cases that could only
fail. It reads a file, takes out what its format refuses, and makes of the rest one `LintedScenario`
(`scenario`): operations in order, and each name with what it stands for there. Every rule of `rules` looks at
this, and yields `Problem`s; the engine makes `Finding`s of them (`findings`), whose level depends on the rule
and on whether the case runs at all.

`fixing` mends a file by its findings, and asks the engine again whether they are gone. `cache` keeps findings
by the bytes of a file. `json_copy` compares a YAML file with the JSON file beside it, and writes that.
`commands` has what rules know of servers: commands that an operation sends, and versions that it needs.
"""
