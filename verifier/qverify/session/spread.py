"""--reference-spread: how far onnxruntime's own settings are apart, beside every difference from it."""

from __future__ import annotations

from collections.abc import Mapping

from qverify.report.document import Report


def mark_spread(report: Report, spread: Mapping[str, float]) -> None:
    """Rows of pairs with the reference get their tensor's spread; a note counts the differences that are no larger. No
    verdict changes by it."""
    within = differing = 0
    for pair in report.pairs:
        if "reference" not in (pair.a, pair.b):
            continue
        for row in pair.tensors:
            row.reference_spread = spread.get(row.name)
            apart = row.metrics.get("max_abs")
            if isinstance(apart, float | int) and apart > 0:
                differing += 1
                within += row.reference_spread is not None and apart <= row.reference_spread
    widest = max(spread, key=lambda n: spread[n], default="")
    most = (
        f", at most {spread[widest]:g} at {widest}"
        if widest and spread[widest] > 0
        else ", which all give the same bytes"
    )
    report.notes.append(
        f"reference spread: {within} of {differing} differing tensors differ by no more than onnxruntime's own settings "
        f"(four optimization levels, one and two threads, the untouched file's outputs{most}); kernels of other "
        "architectures were not run"
    )
