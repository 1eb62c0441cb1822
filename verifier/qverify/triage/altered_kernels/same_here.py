"""How likely a cause's words are among those that give the same bytes at a node: bits of choice, fewer for what kernels
do more often."""

from __future__ import annotations

UNLIKELY = (
    "half down",
    "half toward zero",
    "ceiling",
    "rounded away from zero",
    "rounded up",
    "the result rounded",
    "reciprocal of a divisor",
    "one shift for all channels",
    "raw integers",
    "each of the two operands",
    "(fixed point)",
)
LIKELY = ("to nearest", "16 (")
ALL = "any of these here"  # words that list all causes which are one at a node
USUAL, LESS, MORE, TOGETHER = 1.0, 2.0, 0.3, 0.4


def prior(said: str) -> float:
    """Returns the bits of choosing these words."""
    if ALL in said:
        return TOGETHER + LESS * ("the result rounded" in said)
    return USUAL + LESS * any(words in said for words in UNLIKELY) - MORE * any(words in said for words in LIKELY)
