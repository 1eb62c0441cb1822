"""Learns the arithmetic of a side from a dump or a capture that has the tensors of its nodes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from qverify.compare.identify.fit import Read, collect, fit, run_free
from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.model_bin.layouts import infer_layouts
from qverify.model_bin.units import Unit, units
from qverify.report.learned import Arithmetic, FreeRun
from qverify.session.models import open_models
from qverify.session.offline.locate_dumps import use_names_of_model
from qverify.sides.dumps.open_dump import open_dump
from qverify.sides.dumps.twin_files import refuse_twins
from qverify.sides.dumps.vendor_side import OtherSide, record_dump
from qverify.sides.simulator import Simulator
from qverify.tensors.codes import restore_codes
from qverify.tensors.recording import Array, Recording
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump


@dataclass(frozen=True, slots=True)
class Identified:
    """What a dump shows of its side. free: the simulation under the arithmetic. nodes: how many nodes of the model have
    integers, and of how many everything is in the dump. notes: further lines."""

    arithmetic: Arithmetic
    free: FreeRun
    nodes: tuple[int, int]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an arithmetic comes from: its name, what computed the dump, and the command that learns it."""

    name: str
    engine: str = ""
    learned: str = ""


def identify_dump(path: str, model: str, profile: str, reading: ReadingOptions, origin: Origin) -> Identified:
    """Returns the arithmetic of the side that wrote a dump. Raises UsageError if nothing of it can be compared,
    BadFileError for files that cannot be read."""
    models = open_models([model])
    graph = models.graph
    side = open_dump(path, profile, reading, graph, hashlib.sha256(models.binary).hexdigest())
    use_names_of_model(side, models)
    if isinstance(side, VendorDump):
        other = OtherSide({n: graph.spec(n) for n in graph.observable()}, None, infer_layouts(graph), graph.outputs)
        recording = record_dump(side, path, "dump", other, reading.dtypes)
    else:
        recording = side
    if os.path.isdir(path):
        refuse_twins(path, recording)
    read, every, run_unit = _reader(recording, graph), units(graph), Simulator(graph, models.islands).run_unit
    known = collect(every, graph, read, run_unit)
    if not known:
        integers = next((u.outputs[0] for u in every if _has_integers(u, graph)), "")
        raise UsageError(
            f"{path}: no node of {model} has all its inputs and its output there; "
            + (f"wanted tensors such as {integers}" if integers else "the model has no quantized tensors")
        )
    ops = {op.op: op for op in fit(known)}
    free = run_free(every, graph, read, run_unit, {op: learned.form for op, learned in ops.items()})
    arithmetic = Arithmetic(origin.name, origin.engine, origin.learned, ops)
    total = sum(_has_integers(unit, graph) for unit in every)
    return Identified(arithmetic, free, (total, len(known)), tuple(recording.notes))


def _has_integers(unit: Unit, graph: Graph) -> bool:
    spec = graph.spec(unit.outputs[0])
    return bool(unit.inputs) and spec.quantized and spec.numpy_dtype.kind in "iu" and not spec.interior


def _reader(recording: Recording, graph: Graph) -> Read:
    """Returns the function that gives recorded tensors as the graph stores them: integers of a quantized tensor, also
    where the dump has real values, if these are whole steps of its scale."""
    kept: dict[str, Array | None] = {}

    def read(name: str) -> Array | None:
        if name not in kept:
            kept[name] = graph.constants.get(name, _as_stored(name))
        return kept[name]

    def _as_stored(name: str) -> Array | None:
        value = recording.tensors[name] if name in recording.tensors and name not in recording.missing else None
        spec = graph.spec(name)
        if value is None or value.dtype.kind != "f" or spec.numpy_dtype.kind not in "iu" or not spec.quantized:
            return value
        codes = restore_codes(value, spec) if value.shape == spec.shape else ""
        return None if isinstance(codes, str) else codes

    return read
