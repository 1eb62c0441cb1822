"""Judges no finer than values that are known only as printed text."""

from __future__ import annotations

from qverify.compare.options import Options
from qverify.plural import count
from qverify.report.document import Pair


def limit_to_decimals(pair: Pair, decimals: int) -> None:
    """Removes bit equality from a pair, and limits its matching digits to the printed decimals: equal text does not
    prove equal bytes."""
    pair.bit_equal = False
    for row in pair.tensors:
        row.bit_equal = False
        digits = row.metrics.get("matching_digits")
        row.metrics["matching_digits"] = min(digits, decimals) if isinstance(digits, int) else digits


def refuse_finer(pair: Pair, decimals: int, options: Options) -> None:
    """Makes a PASSED pair INCONCLUSIVE if the printed decimals are fewer than those by which it is to be judged: `compare`
    refuses the same. A user who wants fewer says so, and the verdict line names it."""
    if pair.verdict != "PASSED" or not options.decimals or options.digits <= decimals:
        return
    asked = f"-c {max(decimals, 0)} or less"
    pair.verdict, pair.cause = "INCONCLUSIVE", "precision"
    pair.why = (
        f"the values of the board are known only to {count(max(decimals, 0), 'decimal')}, and nothing finer can be judged: "
        f"print more, or give {asked}"
    )
