"""The simulations of `pushbackd simulate`, a module each."""
