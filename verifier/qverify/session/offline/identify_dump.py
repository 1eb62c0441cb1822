"""Learns the arithmetic of a side from a dump or a capture that has the tensors of its nodes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from qverify.compare.error_bounds.region import MOVING
from qverify.compare.identify.fit import Read, RunUnit, collect, fit, run_free
from qverify.compare.probing.explain import explain_nodes
from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.kinds_of_nodes import find_of_node
from qverify.model_bin.layouts import infer_layouts
from qverify.model_bin.units import Unit, units
from qverify.report.learned import Arithmetic, FreeRun, LearnedOp
from qverify.session.models import open_models
from qverify.session.offline.locate_dumps import use_names_of_model
from qverify.session.tflite_alone import compile_plainly
from qverify.sides.dumps.open_dump import open_dump
from qverify.sides.dumps.rewritten_names import apply_map, pair_rewritten, read_map
from qverify.sides.dumps.twin_files import refuse_twins
from qverify.sides.dumps.vendor_side import OtherSide, record_dump
from qverify.sides.simulator import Simulator
from qverify.tensors.codes import restore_codes
from qverify.tensors.recording import Array, Recording
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump


@dataclass(frozen=True, slots=True)
class Identified:
    """The arithmetic that a dump shows. free: the simulation under it. nodes: how many nodes of the model have integers,
    and of how many everything is in the dump. doubts: why the arithmetic may not be that of the whole network. notes:
    further lines."""

    arithmetic: Arithmetic
    free: FreeRun
    nodes: tuple[int, int]
    doubts: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an arithmetic comes from: its name, what computed the dump, the command that learns it, and the versions that
    it holds for."""

    name: str
    engine: str = ""
    learned: str = ""
    learned_on: dict[str, str] = field(default_factory=dict)


def identify_dump(
    path: str,
    model: str,
    profile: str,
    reading: ReadingOptions,
    origin: Origin,
    inputs: InputRequest | None = None,
    map_file: str = "",
    quantization: tuple[str, ...] = (),
) -> Identified:
    """Returns the arithmetic of the side that wrote a dump. inputs: those of the network that the dump is of, which stand
    for what it lacks. map_file: the names of the model's tensors by those of the dump, as for --map; "" for none.
    quantization: files in which a vendor's toolkit states how it quantized the float ONNX `model`. Raises UsageError if
    nothing of it can be compared, or if it has other inputs, BadFileError for
    files that cannot be read."""
    _refuse_single_array(path)
    models = open_models([model], quantization=quantization)
    graph = models.graph if models.alone is None else compile_plainly(models.alone)
    side = open_dump(path, profile, reading, graph, hashlib.sha256(models.binary).hexdigest())
    names = read_map(map_file) if map_file else {}
    use_names_of_model(side, models, names)
    wanted = Recording("model", "", specs={n: graph.spec(n) for n in (*graph.inputs, *graph.observable())})
    if isinstance(side, VendorDump):
        specs = {n: graph.spec(n) for n in graph.observable()}
        other = OtherSide(specs, None, infer_layouts(graph), graph.outputs, graph.stored(), names)
        recording = record_dump(side, path, "dump", other, reading.dtypes)
    else:
        recording = side
    paired = [apply_map(map_file, names, wanted, recording)] if names else []
    recording.notes += [*paired, *pair_rewritten(wanted, recording)]
    if os.path.isdir(path):
        refuse_twins(path, recording)
    if inputs is not None and inputs.files is not None:
        recording = _with_inputs(recording, prepared_inputs(graph, inputs).arrays(), path)
    read, every, run_unit = _reader(recording, graph), units(graph), Simulator(graph, models.islands).run_unit
    moved = _find_moved(every, graph, read, run_unit)
    known = collect(every, graph, lambda name: moved[name] if name in moved else read(name), run_unit)
    known = [m for m in known if m.unit.outputs[0] not in moved]
    if not known:
        integers = next((u.outputs[0] for u in every if _has_integers(u, graph)), "")
        raise UsageError(
            f"{path}: no node of {model} has all its inputs and its output there; "
            + (f"wanted tensors such as {integers}" if integers else "the model has no quantized tensors")
        )
    ops = {op.op: explain_nodes(op, [m for m in known if m.unit.nodes[0].op == op.op]) for op in fit(known)}
    free = run_free(every, graph, read, run_unit, {op: learned.form for op, learned in ops.items()})
    arithmetic = Arithmetic(origin.name, origin.engine, origin.learned, ops, origin.learned_on)
    total = sum(_has_integers(unit, graph) for unit in every)
    doubts = _list_doubts(recording, graph, every, ops, free)
    return Identified(arithmetic, free, (total, len(known)), tuple(doubts), tuple(recording.notes))


def _refuse_single_array(path: str) -> None:
    """Raises UsageError for a file of one array."""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            if file.read(6) == b"\x93NUMPY":
                raise UsageError(
                    f"{path}: one array; identify takes what a side computed of every node: a folder of .npy files, an .npz or a "
                    "capture (qverify infer and the main job with --capture write them), or a board: -b BOARD -o NAME.toml"
                )


def _with_inputs(recording: Recording, inputs: Mapping[str, Array], path: str) -> Recording:
    """Returns the recording with the inputs of the network that it lacks. Raises UsageError if it has another."""
    for name, value in inputs.items():
        recorded = recording.tensors.get(name) if name not in recording.missing else None
        if recorded is not None and not np.array_equal(recorded, value, equal_nan=value.dtype.kind == "f"):
            raise UsageError(f"{path}: its {name} is not that of -i; give the input that the dump was made with")
    tensors = {**{n: recording.tensors[n] for n in recording.tensors}, **inputs}
    missing = {n: why for n, why in recording.missing.items() if n not in inputs}
    return replace(recording, tensors=tensors, missing=missing)


def _list_doubts(
    recording: Recording, graph: Graph, every: list[Unit], ops: dict[str, LearnedOp], free: FreeRun
) -> list[str]:
    """Returns the ops of which no node is in the dump, what the dump says of itself, and whether the simulation gives
    other bytes although every op has a form. What only inputs of the network determine needs no form."""
    inner = [u for u in every if _has_integers(u, graph) and not {*u.inputs} <= {*graph.inputs, *graph.constants}]
    absent = dict.fromkeys(
        u.nodes[0].op for u in inner if u.nodes[0].op not in MOVING and find_of_node(ops, u.nodes[0], graph) is None
    )
    doubts = [f"no node has its inputs and its output in the dump, of: {', '.join(absent)}"] if absent else []
    doubts += [str(recording.settings[k]) for k in ("incomplete", "unsteady") if recording.settings.get(k)]
    if free.first and all(op.form for op in ops.values()):
        doubts.append(f"every recorded op has a form, and {free.first} differs free-running")
    return doubts


def _find_moved(every: list[Unit], graph: Graph, read: Read, run_unit: RunUnit) -> dict[str, Array]:
    """Returns the tensors that the side does not give and that only move values which it gives, by name."""
    moved = dict[str, Array]()
    for unit in every:
        if unit.op not in MOVING or len(unit.nodes) != 1 or any(read(o) is not None for o in unit.outputs):
            continue
        given = {n: v for n in unit.inputs if (v := moved[n] if n in moved else read(n)) is not None}
        fits = all((v.shape, v.dtype) == (graph.spec(n).shape, graph.spec(n).numpy_dtype) for n, v in given.items())
        if given and len(given) == len(unit.inputs) and fits:
            moved |= {o: v for o, v in run_unit(unit, given).items() if o in unit.outputs}
    return moved


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
