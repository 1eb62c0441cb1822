"""Two folders judged, without any board."""

from __future__ import annotations

from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.report.document import Report
from qverify.sides.dump import dump


def compare_dumps(a: str, b: str, digits: int, rule: str, nan_equal: bool) -> Report:
    """A tensor that only one of them has is missing: never PASSED."""
    first, second = dump(a, "reference"), dump(b, "dump")
    for one, other in ((first, second), (second, first)):
        for name in other.specs.keys() - one.specs.keys():
            one.specs[name] = other.specs[name]
            one.missing[name] = "not in the dump"
    first.finals = second.finals = tuple(first.specs)
    return judge_all(
        {"reference": first, "dump": second}, None, [], Options(digits, rule, True, True, nan_equal), {}, None
    )
