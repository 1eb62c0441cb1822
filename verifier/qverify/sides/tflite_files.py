"""The files of a runner of a .tflite alone: its inputs and tensors are called and laid out as in the file, not as in the graph
that was converted from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from qverify.model_bin.graph import Graph
from qverify.printable import printable
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording, Tensors
from qverify.tensors.spec import TensorSpec
from qverify.tflite_model.layout import as_in_file
from qverify.tflite_model.read_tflite import TfliteModel, schema
from qverify.vendor_files.vendor_dump import spelled_loosely

TensorMap = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TfliteFiles:
    """How names and axes of the graph lie in the file.

    Attributes:
        tensors: name of a tensor of the graph to where it lies (ConvertedModel.tensors).
        whole_names: name of each tensor that is an input or is computed, as the file has it, by index.
    """

    tensors: TensorMap
    whole_names: Mapping[int, str]

    def as_in_file(self, name: str, value: Array) -> Array:
        """Returns an input of the graph in the file's layout."""
        return as_in_file(self.tensors[name], value) if name in self.tensors else value

    def hint(self, prepared: PreparedInputs) -> str:
        """Returns the end of a reason why a runner failed: the dims of its inputs, if their axes are not those of the graph."""
        moved = {i.spec.name: self.as_in_file(i.spec.name, i.array()).shape for i in prepared.inputs}
        shown = [f"{n} {list(moved[n])}" for n in moved if moved[n] != prepared.arrays()[n].shape]
        return f"; its inputs are as the .tflite has them (NHWC): {', '.join(shown[:3])}" if shown else ""

    def rename(self, recording: Recording, graph: Graph) -> None:
        """Gives each array of a recording the name and the axes of the graph's tensor that it is. An array is recognised by the
        file's name (whole, or its first part before `;`) or NAME@INDEX, other characters than letters and digits not
        distinguished. A name of two tensors, and an array with other dims than the file states for a tensor whose axes are
        moved, leave the tensor missing, with the reason."""
        found = {name: self._find(name) for name in recording.specs}
        certain = {i for indices in found.values() if len(indices) == 1 for i in indices}
        found = {n: (indices - certain) or indices if len(indices) > 1 else indices for n, indices in found.items()}
        times = dict[int, int]()
        for indices in found.values():
            times |= {i: times.get(i, 0) + 1 for i in indices if len(indices) == 1}
        source = recording.tensors
        loaders = {name: partial(source.__getitem__, name) for name in source if not found.get(name)}
        specs = {name: spec for name, spec in recording.specs.items() if not found[name]}
        missing = {name: why for name, why in recording.missing.items() if not found.get(name)}
        for name, indices in found.items():
            several = len(indices) > 1
            for own in (n for n, entry in self.tensors.items() if entry["tfl"] in indices and n in graph.tensors):
                entry, spec = self.tensors[own], recording.specs[name]
                why = recording.missing.get(name, "")
                if several:
                    shown = " and ".join(f"{i} ({printable(self.whole_names[i])})" for i in sorted(indices)[:3])
                    why = f"{printable(name)}: the name of tensors {shown} of the file; wanted NAME@INDEX"
                elif times[entry["tfl"]] > 1:
                    why = f"several files are tensor {entry['tfl']} of the .tflite ({printable(own)}); keep one"
                moved = [*entry["axes"]] != [*range(len(entry["axes"]))] and tuple(entry["shape"]) != spec.shape
                if moved and not why:
                    given, wanted = list(spec.shape), list(entry["shape"])
                    why = f"its file has the dims {given}, wanted {wanted}: a runner of a .tflite gets its inputs, and writes its tensors, as the file has them (NHWC)"
                if why:
                    if several and own in specs:
                        continue  # another file is that tensor for certain
                    missing[own], specs[own] = why, graph.spec(own)
                    continue
                missing.pop(own, None)
                loaders[own] = partial(_moved, source, name, entry)
                specs[own] = _spec(own, spec, entry, graph)
        recording.tensors, recording.specs, recording.missing = Tensors(loaders), specs, missing

    def _find(self, name: str) -> set[int]:
        """Returns the tensors of the file that a name may be of: those of NAME@INDEX and of a whole name before those of a first
        part."""
        spelled = spelled_loosely(name)
        numbered = {i for i, whole in self.whole_names.items() if spelled in _numbered(whole, i)}
        whole = {i for i, n in self.whole_names.items() if spelled_loosely(n) == spelled}
        short = {int(e["tfl"]) for n, e in self.tensors.items() if spelled_loosely(n) == spelled}
        short |= {i for i, n in self.whole_names.items() if short and spelled_loosely(n.partition(";")[0]) == spelled}
        return numbered or whole or short


def _numbered(whole: str, index: int) -> tuple[str, str]:
    return spelled_loosely(f"{whole}@{index}"), spelled_loosely(f"{whole.partition(';')[0]}@{index}")


def _moved(source: Mapping[str, Array], name: str, entry: Mapping[str, Any]) -> Array:
    value = source[name]
    if tuple(value.shape) != tuple(entry["shape"]):
        return value  # whose axes are those of the file: another container
    moved = np.ascontiguousarray(value.transpose(entry["axes"])).reshape(entry["dims"])
    types = entry.get("dtypes", ("", ""))
    return moved.astype(types[1]) if value.dtype == types[0] else moved


def _spec(own: str, given: TensorSpec, entry: Mapping[str, Any], graph: Graph) -> TensorSpec:
    """Returns the spec of an array after _moved(): the graph's own if type and dims are its."""
    known, types = graph.spec(own), entry.get("dtypes", ("", ""))
    dtype = types[1] if given.dtype == types[0] else given.dtype
    shape = tuple(entry["dims"]) if given.shape == tuple(entry["shape"]) else given.shape
    return known if (known.dtype, known.shape) == (dtype, shape) else TensorSpec(own, dtype, shape)


def files_of(data: bytes, model: TfliteModel, tensors: TensorMap) -> TfliteFiles:
    """Returns how the tensors of a file that was read are called in it. data: its bytes."""
    graph = schema().Model.GetRootAs(data, 0).Subgraphs(0)
    shown = (*model.inputs, *model.made_by)
    return TfliteFiles(tensors, {i: (graph.Tensors(i).Name() or b"").decode("utf-8", "replace") for i in shown})
