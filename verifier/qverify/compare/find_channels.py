"""Finds tensors of which only some channels are wrong."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from qverify.compare.channels import describe_marked_channels
from qverify.compare.decimals import matches
from qverify.compare.judge import Judged
from qverify.compare.paired_values import Reals
from qverify.compare.values import Values
from qverify.report.facts import Finding
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
    if judged.gate.bits or not judged.gate.decimals:
        return describe_marked_channels(a != b)
    with np.errstate(invalid="ignore"):
        distance = np.abs(a - b)
    distance[~np.isfinite(distance)] = np.inf
    distance[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    return describe_marked_channels(~matches(judged.gate.rule, judged.gate.digits, a, b, distance))


def _read(side: Values, name: str) -> Reals | None:
    """Returns the real values of a tensor, or None if they are not there."""
    value, spec = side.get_local(name), side.recording.specs.get(name)
    if value is None or value.dtype.kind not in "iufb" or (spec is not None and value.shape != spec.shape):
        return None
    return (spec or TensorSpec(name, value.dtype.name, value.shape)).dequantized(value)
