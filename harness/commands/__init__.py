"""The commands of `pushbackd`: their options, and what each does."""
