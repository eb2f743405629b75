"""Documents that people write: one reader that keeps lines, one error, one hint for a mistyped name."""
