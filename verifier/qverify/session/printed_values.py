"""Judges no finer than values that are known only as printed text."""

from __future__ import annotations

from qverify.compare.options import Options
from qverify.errors import UsageError
from qverify.plural import count
from qverify.report.document import Pair, ReportDocument
from qverify.tensors.recording import Recording

UNKNOWN_WHOLE = "have so few printed digits that not even whole numbers are known"


def limit_to_decimals(pair: Pair, decimals: int) -> None:
    """Removes bit equality from a pair, and limits its matching digits to the printed decimals: equal text does not
    prove equal bytes."""
    pair.bit_equal = False
    for row in pair.tensors:
        row.bit_equal = False
        digits = row.metrics.get("matching_digits")
        row.metrics["matching_digits"] = min(digits, decimals) if isinstance(digits, int) else digits


def list_too_fine(decimals: int, options: Options) -> list[tuple[str, str]]:
    """Returns the gates that are too fine for values known to these decimals, 0 or more, each as the user gives it, with
    what to give in its place."""
    fewer, larger = f"-c {decimals} or less", f"{10.0**-decimals:g} or more"
    gates = {n: options.gates[n] for n in ("atol", "rmse") if n in options.gates}
    found = []
    if options.decimals and options.digits > decimals:
        found.append((f"-c {options.digits}{_whose(options)}", fewer))
    if options.rule == "exact":
        found.append(("--rule exact", f"{fewer} and another rule"))
    for name, limit in gates.items():
        if limit < 10.0**-decimals:
            option = "--max-rmse" if name == "rmse" else f"--{name}"
            found.append((f"{option} {limit:g}", f"{option} {larger}"))
    if "rtol" in options.gates and "atol" not in gates:
        found.append(("--rtol without --atol", f"--atol {larger} with it"))
    return found


def _whose(options: Options) -> str:
    """Returns whose decimals they are, if the user did not give them."""
    if options.criteria:
        return f" (of --criteria {options.criteria})"
    return "" if options.digits_given or "digits" in options.named else " (the default)"


def refuse_finer(pair: Pair, decimals: int, options: Options) -> None:
    """Makes a PASSED pair INCONCLUSIVE if a gate is too fine for the printed decimals, or if not even whole numbers are
    known: `compare` refuses the same. A user who wants a coarser gate says so, and the verdict line names it."""
    if pair.verdict != "PASSED":
        return
    why = f"the values of the board {UNKNOWN_WHOLE}: print more"
    if decimals >= 0:
        if not (too_fine := list_too_fine(decimals, options)):
            return
        gate, instead = too_fine[0]
        known = f"the values of the board are known only to {count(decimals, 'decimal')}"
        why = f"{gate}: {known}, and nothing finer can be judged: print more, or give {instead}"
    pair.verdict, pair.cause, pair.why = "INCONCLUSIVE", "precision", why


def _precision(sides: tuple[Recording, Recording]) -> int | None:
    """Returns to how many decimals the printed values of the dumps are known; None if no dump has printed values."""
    decimals = [p for s in sides if isinstance(p := s.settings.get("precision"), int)]
    return min(decimals) if decimals else None


def check_precision(sides: tuple[Recording, Recording], options: Options, has_model: bool) -> None:
    """Raises UsageError if a gate is finer than the precision of the dumps' printed values. has_model: whether -m was
    given, whose scales were then used where it has them."""
    decimals = _precision(sides)
    if decimals is None:
        return
    if decimals < 0:
        raise UsageError(f"the dump's values {UNKNOWN_WHOLE}; dump more of them")
    advice = ", or -m, which has the exact scales" if decimals < 6 else ""
    if has_model and advice:
        advice = "; -m has no scale of them: they are real values there, or of another type than in the dump"
    for gate, instead in list_too_fine(decimals, options):
        raise UsageError(
            f"{gate}: the dump's values are known only to {count(decimals, 'decimal')}, and nothing finer can be judged; "
            f"give {instead}{advice}"
        )


def limit_to_precision(report: ReportDocument, sides: tuple[Recording, Recording]) -> None:
    """Limits the report to the precision of the dumps' printed values, if they have any."""
    decimals = _precision(sides)
    if decimals is None:
        return
    report.notes.append(f"values known to {count(decimals, 'decimal')}: whether the bytes are equal is not known")
    for pair in report.pairs:
        limit_to_decimals(pair, decimals)
