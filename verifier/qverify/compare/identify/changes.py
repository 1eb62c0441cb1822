"""Says in what an arithmetic that was learned again differs from the former one."""

from __future__ import annotations

from qverify.report.learned import Arithmetic

UNKNOWN = "unknown"


def describe_changes(former: Arithmetic, learned: Arithmetic) -> list[str]:
    """Returns a line for each version and each op that is not what it was: `conv: gemmlowp, was tflite-single`. A form that
    gives the same bytes on the data of either is no change of the board, and the line says so."""
    versions = {**former.learned_on, **learned.learned_on}
    lines = [
        f"{key}: {learned.learned_on.get(key, 'not stated')}, was {former.learned_on.get(key, 'not stated')}"
        for key in versions
        if former.learned_on.get(key) != learned.learned_on.get(key)
    ]
    for op in {**former.ops, **learned.ops}:
        before, now = former.form_of(op), learned.form_of(op)
        if before == now:
            continue
        if op not in learned.ops:
            lines.append(f"{op}: not learned this time, was {before}")
            continue
        alike = before in learned.ops[op].alike or (op in former.ops and now and now in former.ops[op].alike)
        same = "; both give every element, so nothing shows a change" if alike else ""
        lines.append(f"{op}: {now or UNKNOWN}, was {before or UNKNOWN}{same}")
    return lines
