"""What two dumps leave open although every value passes: one read twice, scales that the model contradicts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec


def describe_same_files(a: str, b: str) -> str:
    """Returns what the verdict says where two folders hold the same files by links; "" where one file of B is its own."""
    if not (os.path.isdir(a) and os.path.isdir(b)):
        return ""
    names = [name for name in os.listdir(b) if os.path.isfile(os.path.join(b, name))]
    there = [
        os.path.exists(os.path.join(a, n)) and os.path.samefile(os.path.join(a, n), os.path.join(b, n)) for n in names
    ]
    return "A and B are links to the same files, compared with themselves" if names and all(there) else ""


def read_by_model(first: Recording, second: Recording, model: Mapping[str, TensorSpec]) -> tuple[list[str], list[str]]:
    """Gives stored values the scale of -m where both dumps state one other scale, so that they cannot widen a gate in real
    values. Returns the tensors for which it did, and those that are read by different scales, one of them not the
    model's."""
    replaced, others = list[str](), list[str]()
    for name, known in model.items():
        one, two = first.specs.get(name), second.specs.get(name)
        stated = [spec for spec in (one, two) if spec is not None and spec.quantized]
        if not known.quantized or all(_fits(spec, known) for spec in stated):
            continue
        if one is None or two is None or len(stated) < 2 or not one.same_meaning(two) or one.shape != known.shape:
            others.append(name)
            continue
        for side, spec in ((first, one), (second, two)):
            side.specs[name] = replace(
                spec, scale=known.scale, zero_point=known.zero_point, channel_axis=known.channel_axis
            )
        replaced.append(name)
    return replaced, others


def _fits(spec: TensorSpec, known: TensorSpec) -> bool:
    """Returns whether the model says the same of these values, or stores them in another form, with another scale."""
    return spec.dtype != known.dtype or spec.same_meaning(known)
