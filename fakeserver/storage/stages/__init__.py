"""Stages of pipelines, and projections."""
