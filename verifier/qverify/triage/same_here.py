"""The words of causes that are one at this node and differ at others."""

from __future__ import annotations

from collections.abc import Iterator

TOGETHER, ALONE = 0.5, 1.0  # bits: of all words together, which say what is known, and of each alone


def worded(texts: list[str], most: int = 3) -> Iterator[tuple[str, float]]:
    """Yields (words, bits): all together, then each alone, which other nodes of the op can share."""
    if len(texts) > 1:
        yield f"{texts[0]} (the same here: {'; '.join(texts[1:most])})", TOGETHER
    for text in texts:
        yield text, ALONE
