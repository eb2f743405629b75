"""What a run tells: terminals, CI servers (JUnit), programs (JSON Lines), and readers of journals."""
