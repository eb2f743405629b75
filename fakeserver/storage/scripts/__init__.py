"""Scripts: JavaScript for the operators that run it."""
