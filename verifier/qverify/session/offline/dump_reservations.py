"""Finds reasons to doubt a comparison of two dumps even if every value passes: files that both share by links,
scales that only one of them states, and scales that the model contradicts."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from qverify.plural import count
from qverify.printable import printable
from qverify.sides.dumps.vendor_tensor import NARROW
from qverify.tensors.recording import NOT_IN_DUMP, Recording
from qverify.tensors.spec import TensorSpec

SAME = 1e-6  # relative; two scales that are one, written with a few digits


def describe_same_files(a: str, b: str) -> str:
    """Returns the note for the verdict if files of folder B are links to files of folder A; "" if there are none, or A
    and B are the same folder, of which two sides are read."""
    if not (os.path.isdir(a) and os.path.isdir(b)) or os.path.samefile(a, b):
        return ""
    files_of_a = set(_file_identities(a).values())
    linked = sorted(name for name, identity in _file_identities(b).items() if identity in files_of_a)
    return (
        f"{count(len(linked), 'file', 'is', 'are')} both A's and B's by links, first {printable(linked[0])}"
        if linked
        else ""
    )


def _file_identities(folder: str) -> dict[str, tuple[int, int]]:
    """Returns device and inode number of each regular file in a folder, by its name. Links are followed."""
    paths = {name: os.path.join(folder, name) for name in os.listdir(folder)}
    statuses = {name: os.stat(path) for name, path in paths.items() if os.path.isfile(path)}
    return {name: (status.st_dev, status.st_ino) for name, status in statuses.items()}


def read_by_model(
    first: Recording, second: Recording, model: Mapping[str, TensorSpec], spelled: Callable[[str], str]
) -> tuple[list[str], dict[str, str]]:
    """Replaces the scale of stored values by the model's if both dumps state the same scale and the model another one,
    so that a wrong scale cannot widen a gate in real values.

    model: the specs of -m, by name. spelled: spells the model's names and those of the dumps alike. Returns the tensors
    whose scale was replaced, and those that keep their scales although the model contradicts one of them, each with a
    remark on its zero point if that is what is contradicted, else ""."""
    model_specs = defaultdict[str, list[TensorSpec]](list)
    for name, spec in model.items():
        model_specs[spelled(name)].append(spec)
    replaced, contradicted = list[str](), dict[str, str]()
    for name in [n for n in first.specs if n in second.specs]:
        a, b, matches = first.specs[name], second.specs[name], model_specs[spelled(name)]
        stated = [spec for spec in (a, b) if spec.quantized]
        if len(matches) != 1 or not matches[0].quantized or all(_agrees(spec, matches[0]) for spec in stated):
            continue
        true = matches[0]
        if len(stated) < 2 or not a.same_meaning(b) or not a.shape == b.shape == true.shape:
            contradicted[name] = _describe_zero_point(stated, true)
            continue
        for side, spec in ((first, a), (second, b)):
            side.specs[name] = replace(
                spec, scale=true.scale, zero_point=true.zero_point, channel_axis=true.channel_axis
            )
        replaced.append(name)
    return replaced, contradicted


def _describe_zero_point(stated: list[TensorSpec], true: TensorSpec) -> str:
    """Returns the zero point that a dump states and the model contradicts, if they agree on the scale; else ""."""
    for spec in stated:
        single = len(spec.scale) == len(true.scale) == len(spec.zero_point) == len(true.zero_point) == 1
        if single and spec.dtype == true.dtype and abs(spec.scale[0] - true.scale[0]) <= SAME * true.scale[0]:
            if steps := spec.zero_point[0] - true.zero_point[0]:
                off = f"every value is {count(abs(steps), 'step')} too {'low' if steps > 0 else 'high'} by it"
                return f" (zero point {spec.zero_point[0]}, {true.zero_point[0]} in -m: {off})"
    return ""


def _agrees(spec: TensorSpec, model_spec: TensorSpec) -> bool:
    """Returns whether the model gives these values the same meaning. It cannot contradict values of another dtype,
    which it stores in another form and with another scale."""
    return spec.dtype != model_spec.dtype or spec.same_meaning(model_spec)


def share_specs(first: Recording, second: Recording, not_offered: Collection[str]) -> list[str]:
    """Adds to each recording the tensors that only the other one has, as missing, and gives integers without a scale
    the scale that the other one states: it shows that they are stored values. Returns the names of the latter.
    not_offered: tensors that the second one need not have."""
    borrowed: list[str] = []
    for side, other in ((first, second), (second, first)):
        for name in [n for n in other.specs if n not in side.specs and n not in not_offered]:
            side.specs[name] = other.specs[name]
            why = other.missing.get(name)
            side.missing[name] = NOT_IN_DUMP + (f"; on the other side: {why}" if why else "")
        for name, spec in side.specs.items():
            other_spec = other.specs.get(name, spec)
            same_layout = (other_spec.dtype, other_spec.shape) == (spec.dtype, spec.shape)
            if other_spec.quantized and not spec.quantized and same_layout:
                side.specs[name] = other_spec
                borrowed.append(name)
    return borrowed


def refuse_unscaled(first: Recording, second: Recording, model: Mapping[str, TensorSpec]) -> None:
    """Marks integers of 8 or 16 bits without a scale as missing where the other side has real values, unless the model
    states that they are not quantized: they may be stored values."""
    for side, other in ((first, second), (second, first)):
        for name, spec in side.specs.items():
            is_real = name in other.specs and other.specs[name].numpy_dtype.kind == "f"
            known = model.get(name)
            plain = known is not None and known.dtype == spec.dtype and not known.quantized
            unscaled = spec.dtype in NARROW and not spec.quantized
            if unscaled and is_real and not plain and name not in {*side.missing, *other.missing}:
                advice = "-m does not state one" if model else "give -m quant.onnx or model.bin, which states it"
                side.missing[name] = (
                    f"{spec.dtype} without a scale, {other.specs[name].dtype} on the other side: {advice}"
                )
