"""The probability of the text of a cause among those that give the same bytes at a node: bits of choice, fewer for what
kernels do more often."""

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
ALL = "any of these here"  # ends a text that lists all causes that are equivalent at a node
USUAL_BITS, UNLIKELY_BITS, LIKELY_BITS, TOGETHER_BITS = 1.0, 2.0, 0.3, 0.4


def prior(text: str) -> float:
    """Returns the bits of choosing the cause with this text."""
    if ALL in text:
        return TOGETHER_BITS + UNLIKELY_BITS * ("the result rounded" in text)
    is_unlikely, is_likely = (any(words in text for words in group) for group in (UNLIKELY, LIKELY))
    return USUAL_BITS + UNLIKELY_BITS * is_unlikely - LIKELY_BITS * is_likely
