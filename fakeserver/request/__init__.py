"""One request: its way through the pipeline, what is known of it, and its reply."""
