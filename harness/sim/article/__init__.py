"""The article on retry intervals: its scenario, its two strategies, and its pictures."""
