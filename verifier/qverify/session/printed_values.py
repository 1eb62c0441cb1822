"""Judges no finer than values that are known only as printed text."""

from __future__ import annotations

from qverify.report.document import Pair


def limit_to_decimals(pair: Pair, decimals: int) -> None:
    """Removes bit equality from a pair, and limits its matching digits to the printed decimals: equal text does not
    prove equal bytes."""
    pair.bit_equal = False
    for row in pair.tensors:
        row.bit_equal = False
        digits = row.metrics.get("matching_digits")
        row.metrics["matching_digits"] = min(digits, decimals) if isinstance(digits, int) else digits
