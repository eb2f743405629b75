"""The unified test format: load, check and run scenarios."""

from __future__ import annotations
