"""--reference-spread: reports with every difference how far the results of onnxruntime's own settings, and of other
interpreters' kernels, differ from the reference."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from qverify.errors import UsageError
from qverify.plural import count
from qverify.report.document import ReportDocument
from qverify.report.spread import SpreadRun
from qverify.session.models import Models
from qverify.tensors.prepared import PreparedInputs

if TYPE_CHECKING:
    from qverify.session.host_sides import HostSides
    from qverify.session.request import Request
    from qverify.sides.reference_variants.run_variants import Spread, Step


class ReferenceSpread:
    """Measures the spread of the reference for any number of frames. Raises UsageError if it cannot be measured for
    these models."""

    def __init__(self, request: Request, models: Models):
        from qverify.sides.reference_variants.other_interpreter import OtherInterpreter

        if models.compiled is None or models.alone is not None:
            raise UsageError("--reference-spread needs the quantized ONNX in -m")
        commands = request.reference_python
        self._interpreters = [OtherInterpreter(command, request.reference_timeout_s) for command in commands]

    def measure(self, host: HostSides, prepared: PreparedInputs, step: Step | None = None) -> Spread:
        """Returns the spread for these inputs. It is called before the board runs, so that the board does not run in
        vain if an interpreter fails."""
        from qverify.sides.reference_variants.run_variants import measure_spread

        return measure_spread(host.variants(prepared), self._interpreters, step)


def mark_spread(report: ReportDocument, spread: Spread) -> None:
    """Adds the spread of its tensor to each row of a pair with the reference, and notes with the number of differences
    that are within the spread and with the interpreters. No verdict changes."""
    within = differing = 0
    for pair in report.pairs:
        if "reference" not in (pair.a, pair.b):
            continue
        for row in pair.tensors:
            row.reference_spread, row.reference_spread_by = spread.widest.get(row.name, (None, None))
            difference = row.metrics.get("max_abs")
            if isinstance(difference, float | int) and difference > 0:
                differing += 1
                within += row.reference_spread is not None and difference <= row.reference_spread
    report.reference_spread = spread.runs
    others = " and other interpreters" if len(spread.runs) > 1 else ""
    report.notes.append(
        f"reference spread: {within} of {count(differing, 'differing tensor', 'differs', 'differ')} by no more than "
        f"onnxruntime's own settings (four optimization levels, one and two threads, the original ONNX's outputs"
        f"{_describe_largest(spread.runs[0])}){others}"
    )
    report.notes += [f"reference spread: {_describe_other(row)}" for row in spread.runs[1:]]
    if all(row.machine == platform.machine() for row in spread.runs):
        report.notes.append(
            "reference spread: kernels of other architectures were not run; --reference-python COMMAND gives an interpreter "
            "that has them (scripts/arm_reference of a clone makes one)"
        )


def _describe_largest(row: SpreadRun) -> str:
    return f", at most {row.max_abs:g} at {row.widest}" if row.differing else ", which all give the same bytes"


def _describe_other(row: SpreadRun) -> str:
    far = f", at most {row.max_abs:g} at {row.widest}" if row.differing else ""
    lsb = f", {row.max_lsb} LSB of integers" if row.max_lsb else ""
    ran = f"{row.who} (Python {row.python}) ran it as well"
    differing = count(row.tensors, "tensor", "differs", "differ")
    return f"{ran}: {row.differing} of {differing} from this machine's{far}{lsb}"
