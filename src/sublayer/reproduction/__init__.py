"""Reproduction: a paper's claim run again, at a size that fits a small machine.

from sublayer.reproduction import reproduce

result = reproduce("feedback/random-walk")

A claim is a comparison whose variants, data and budget are fixed, with the figures that the paper printed. Its folder
is that of a comparison, so it can be continued and `sublayer report` draws it, with one more file:

REPRODUCTION/
  claim.json       the paper's figures, ours, and which of its findings were seen again (result.ClaimResult)
"""

from sublayer.reproduction.claim import Claim, Finding, claim, claims, find
from sublayer.reproduction.job import reproduce
from sublayer.reproduction.result import ClaimResult

__all__ = ["Claim", "ClaimResult", "Finding", "claim", "claims", "find", "reproduce"]
