"""What two dumps leave open although every value passes: files that both have by links, scales that the model contradicts."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from qverify.plural import count
from qverify.printable import printable
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec


def describe_same_files(a: str, b: str) -> str:
    """Returns what the verdict says where files of folder B are links to files of folder A; "" where none is, and for one
    folder of which two sides are read."""
    if not (os.path.isdir(a) and os.path.isdir(b)) or os.path.samefile(a, b):
        return ""
    of_a = set(_files(a).values())
    linked = sorted(name for name, file in _files(b).items() if file in of_a)
    return (
        f"{count(len(linked), 'file', 'is', 'are')} both A's and B's by links, first {printable(linked[0])}"
        if linked
        else ""
    )


def _files(folder: str) -> dict[str, tuple[int, int]]:
    """Returns device and number of each regular file in a folder, by its name; links are followed."""
    paths = {name: os.path.join(folder, name) for name in os.listdir(folder)}
    found = {name: os.stat(path) for name, path in paths.items() if os.path.isfile(path)}
    return {name: (about.st_dev, about.st_ino) for name, about in found.items()}


def read_by_model(
    first: Recording, second: Recording, model: Mapping[str, TensorSpec], spelled: Callable[[str], str]
) -> tuple[list[str], list[str]]:
    """Gives stored values the scale of -m where both dumps state one other scale, so that they cannot widen a gate in real
    values. spelled: spells the model's names and the dumps' alike. Returns the tensors for which it did, and those that
    are read by different scales, one of them not the model's."""
    known = defaultdict[str, list[TensorSpec]](list)
    for name, spec in model.items():
        known[spelled(name)].append(spec)
    replaced, others = list[str](), list[str]()
    for name in [n for n in first.specs if n in second.specs]:
        one, two, fitting = first.specs[name], second.specs[name], known[spelled(name)]
        stated = [spec for spec in (one, two) if spec.quantized]
        if len(fitting) != 1 or not fitting[0].quantized or all(_fits(spec, fitting[0]) for spec in stated):
            continue
        true = fitting[0]
        if len(stated) < 2 or not one.same_meaning(two) or not one.shape == two.shape == true.shape:
            others.append(name)
            continue
        for side, spec in ((first, one), (second, two)):
            side.specs[name] = replace(
                spec, scale=true.scale, zero_point=true.zero_point, channel_axis=true.channel_axis
            )
        replaced.append(name)
    return replaced, others


def _fits(spec: TensorSpec, known: TensorSpec) -> bool:
    """Returns whether the model says the same of these values, or stores them in another form, with another scale."""
    return spec.dtype != known.dtype or spec.same_meaning(known)
