"""The laws, for anyone who writes a member of a family: `sublayer.testing.check(MyPart.Config())`."""

from __future__ import annotations

from sublayer.testing.case import Case
from sublayer.testing.check import Findings, check
from sublayer.testing.laws import LAWS, Law
from sublayer.testing.small import small
from sublayer.testing.surroundings import around
from sublayer.testing.verdict import LawBroken, Verdict

__all__ = ["LAWS", "Case", "Findings", "Law", "LawBroken", "Verdict", "around", "check", "small"]
