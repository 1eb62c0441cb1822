"""Finds tensors of which only some channels are wrong."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from qverify.compare.channels import CHANNEL_AXIS, are_zero, describe_marked_channels
from qverify.compare.decimals import matches
from qverify.compare.judge import Judged
from qverify.compare.paired_values import Reals
from qverify.compare.values import Values
from qverify.report.facts import Finding
from qverify.report.side_names import within
from qverify.tensors.spec import TensorSpec


def find_channels(pairs: Iterable[Judged]) -> list[Finding]:
    """Returns a finding on the first tensor of each pair that FAILED, if its elements that do not match lie in few of
    its channels."""
    found = []
    for judged in pairs:
        name = next((n for n, row in judged.rows.items() if row.verdict == "FAILED"), None)
        if name is not None and (text := _describe(judged, name)):
            found.append(Finding("channels", name, f"{name}: what does not match is {text}", judged.pair.frame))
    return found


def _describe(judged: Judged, name: str) -> str:
    a, b = _read(judged.a, judged.names[name].a), _read(judged.b, judged.names[name].b)
    if a is None or b is None or a.shape != b.shape:
        return ""
    if a.ndim >= 2 and a.size <= a.shape[0] * a.shape[1]:  # a vector: each channel is one element, which says nothing
        return ""
    errors = judged.rows[name].channels
    axis = CHANNEL_AXIS if errors is None else errors.axis
    differing = _mark(judged, a, b)
    text = describe_marked_channels(differing, axis)
    return f"{text}, all of 0 {within(judged.pair.b)}" if text and are_zero(differing, b, axis) else text


def _mark(judged: Judged, a: Reals, b: Reals) -> npt.NDArray[np.bool_]:
    """Returns the mask of the elements that do not match."""
    if judged.gate.bits or not judged.gate.decimals:
        return np.asarray(a != b)
    with np.errstate(invalid="ignore"):
        distance = np.abs(a - b)
    distance[~np.isfinite(distance)] = np.inf
    distance[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    return ~matches(judged.gate.rule, judged.gate.digits, a, b, distance)


def _read(side: Values, name: str) -> Reals | None:
    """Returns the real values of a tensor, or None if they are not there."""
    value, spec = side.get_local(name), side.recording.specs.get(name)
    if value is None or value.dtype.kind not in "iufb" or (spec is not None and value.shape != spec.shape):
        return None
    return (spec or TensorSpec(name, value.dtype.name, value.shape)).dequantized(value)
