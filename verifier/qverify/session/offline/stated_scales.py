"""Integers of a dump that are those of the other side and are read by a scale or zero point that the model contradicts: not the
values are wrong, but what the dump states of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from qverify.compare.paired_values import bits_equal
from qverify.printable import printable
from qverify.report.document import ReportDocument
from qverify.report.facts import Finding
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

CAUSE = "stated_scale"


def state_scales(
    report: ReportDocument,
    sides: tuple[Recording, Recording],
    contradicted: Collection[str],
    model: Mapping[str, TensorSpec],
    followed: Collection[str],
) -> None:
    """Adds a finding for each tensor of equal integers whose scale in a dump the model contradicts, and sets the cause of pairs that
    failed by such tensors alone, of which no node is to blame.

    Args:
        report: the report on the two dumps.
        sides: the dumps.
        contradicted: the tensors that a dump's scale is used for, which is not the model's.
        model: what the model states of its tensors.
        followed: the real values of final outputs that were computed from integers by what a dump states.
    """
    found = {name: text for name in contradicted if (text := _describe(name, *sides, model.get(name)))}
    for pair in report.pairs:
        failed = {row.name for row in pair.tensors if row.verdict == "FAILED"}
        if pair.verdict == "FAILED" and failed & found.keys() and failed <= found.keys() | set(followed):
            pair.cause, pair.bit_equal = CAUSE, False
            report.blamed = [blame for blame in report.blamed if blame.node not in followed]
            report.blame = next(iter(report.blamed), None)
    report.findings = [f for f in report.findings if f.kind != "scale" or f.tensor not in found]
    report.findings += [Finding("scale", name, text) for name, text in found.items()]


def _describe(name: str, first: Recording, second: Recording, model: TensorSpec | None) -> str:
    """Returns the sentence on one tensor; "" if its integers are not equal, or nothing contradicts the model."""
    a, b = (side.tensors.get(name) if name not in side.missing else None for side in (first, second))
    if a is None or b is None or model is None or a.dtype != b.dtype or a.shape != b.shape or not bits_equal(a, b):
        return ""
    stated = [(side.side, text) for side in (first, second) for text in _compare(side.specs[name], model)]
    if not stated:
        return ""
    said = " and ".join(f"{text} in {side}" for side, text in stated)
    return (
        f"{printable(name)}: the integers of both sides are equal, and are read by {said}; correct what the dump states"
    )


def _compare(own: TensorSpec, model: TensorSpec) -> Iterator[str]:
    """Yields in which of its parameters a quantization is not the model's."""
    if not own.quantized or own.same_meaning(model) or len(own.scale) != len(model.scale):
        return
    if own.scale != model.scale:
        times = own.scale[0] / model.scale[0]
        yield f"the scale {own.scale[0]:.6g}, {times:.4g} times that of -m,"
    if own.zero_point != model.zero_point:
        yield f"the zero point {own.zero_point[0]}, which is {model.zero_point[0]} in -m,"
