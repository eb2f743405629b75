"""PyMongo's two APIs behind the runner."""
