"""Updates: operators, replacements and pipelines."""
