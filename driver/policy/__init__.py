"""Pure decisions about sending a command again: they take the time and the dice, and wait for nothing."""
