"""Reproduction: a paper's claim run again, at a size that a small machine can do.

from sublayer.reproduction import reproduce

told = reproduce("feedback/random-walk")

A claim is a comparison whose variants, data and budget are set, and beside it what the paper printed. Its folder is
that of a comparison, so that it goes on where it was stopped and `sublayer report` draws it, with one file more:

REPRODUCTION/
  claim.json       the paper's figures, ours, and which of its findings were seen again
"""

from sublayer.reproduction.claim import Claim, Finding, claim, claims, find
from sublayer.reproduction.job import reproduce

__all__ = ["Claim", "Finding", "claim", "claims", "find", "reproduce"]
