"""A grammar of statements: random commands that pass validation, a few with something wrong in them."""

from __future__ import annotations

from statements.commands import Statement, Statements
from statements.types import changed

__all__ = ["Statement", "Statements", "changed"]
