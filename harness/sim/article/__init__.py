"""The article on retry intervals: its scenario, its two strategies, and its pictures.

`parameters.py` has the article's numbers and its formulas, `scenario.py` makes scenarios of the fleet of
them and measures a trial. `live.py` plays the same in real time, with the fake in a process
(`live_server.py`) that is stopped and goes on, and with real drivers (`live_clients.py`); both tiers end in
an `ArticleTrial`, so `prints.py`, `pictures.py` and `files.py` show them alike. Model and live clients roll
the same dice, and wait the same gaps.

`pushbackd simulate article` is the command, docs/SIMULATION.md compares the results with the article's.
"""
