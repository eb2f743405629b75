"""Reports of runs: for terminals, CI servers (JUnit, GitHub), programs (JSON Lines) and browsers (HTML)."""
