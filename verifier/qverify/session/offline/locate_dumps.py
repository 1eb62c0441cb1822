"""Recomputes the nodes of two dumps by the model of -m, for `qverify compare`, and gives tensors the model's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from qverify.compare.judge import Judged
from qverify.compare.options import Options
from qverify.compare.two_dumps import HostUnits, locate
from qverify.compare.verdict import Locate
from qverify.errors import QVerifyError
from qverify.model_bin.units import units
from qverify.plural import count
from qverify.printable import describe_error, printable
from qverify.report.document import Blame
from qverify.session.host_sides import HostSides
from qverify.session.models import Models
from qverify.session.node_evidence import NodeEvidence
from qverify.session.recorded_causes import name_cause
from qverify.sides.runner_recording import rename_dequantized, rename_loosely
from qverify.tensors.codes import restore_codes
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import VendorDump, VendorTensor

MAX_SHOWN = 3  # names in a note


def find_locator(models: Models, same_inputs: bool, options: Options, notes: list[str]) -> Locate:
    """Returns the function that recomputes the nodes of two dumps. If a side of this host cannot be opened, the
    function adds the reason to `notes` and leaves it out. same_inputs: whether both dumps are of the same inputs."""

    def run(judged: Judged) -> list[Blame]:
        host = HostSides(models)
        try:
            run_unit, kernel_sets = host.run_units(True), host.kernel_sets()
        except QVerifyError as error:
            notes.append(f"nodes were not recomputed: {describe_error(error)}")
            run_unit, kernel_sets = {}, {}
        graph, sides = models.graph, {} if models.alone is None else {"reference": _litert()}
        names = host.distrusted, models.onnx_names.made
        known = HostUnits(graph, units(graph), run_unit, sides, same_inputs, *names, kernel_sets)
        blamed = locate(judged, known, options)
        evidence = NodeEvidence({r.side: r for r in (judged.a.recording, judged.b.recording)}, graph, {})
        for blame in blamed:
            if blame.side in (judged.pair.a, judged.pair.b):
                name_cause(blame, [judged.pair], evidence)
        return blamed

    return run


def _litert() -> Recording:
    """Returns what is known of the reference of a .tflite without an ONNX."""
    return Recording("reference", "LiteRT", runtime="litert", kernels="litert-reference")


def use_names_of_model(side: Recording | VendorDump, models: Models) -> None:
    """Gives the tensors of a dump the names of the model: those whose file name spells one tensor only, and real values
    under the ONNX's name of a dequantized tensor, which are those of the quantized tensor."""
    if isinstance(side, VendorDump):
        _resolve(side, models.vendor_names, models.graph.inputs)
        _rename(side, models)
        return
    rename_loosely(side, models.graph, models.onnx_names.dequantized)
    rename_dequantized(side, models.graph, models.onnx_names.dequantized)


def _resolve(dump: VendorDump, names: Mapping[str, str], inputs: Collection[str]) -> None:
    """Gives the tensors of a toolkit's dump the names of the ONNX that was written from its statements. inputs: the
    network's, which the toolkit dumps as well."""
    if not names:
        return
    dump.tensors = [replace(t, is_input=True) if t.name in inputs else t for t in dump.tensors]
    own = {t.name for t in dump.tensors}
    taken = Counter(names.get(t.name, t.name) for t in dump.tensors)
    dump.tensors = [
        replace(t, name=names[t.name], other_names=())
        if t.name in names and taken[names[t.name]] == 1 and names[t.name] not in own
        else t
        for t in dump.tensors
    ]


def leave_out_inner(first: Recording, second: Recording, models: Models) -> list[str]:
    """Leaves out the tensors of the ONNX that its integer form does not have, if only one dump has them. Returns a text
    that names them, for the verdict line, or []."""
    left_out = list[str]()
    for side, other in ((first, second), (second, first)):
        made = {models.onnx_names.dequantized.get(n, n) for n in models.vendor_names.values()}  # by the toolkit
        absent = frozenset(models.graph.observable()) - made - {*models.graph.outputs} if made else frozenset()
        for name in [n for n in side.specs if n in models.onnx_names.inner | absent and n not in other.specs]:
            del side.specs[name]
            side.missing.pop(name, None)
            left_out.append(name)
    if not left_out:
        return []
    are = count(len(left_out), "tensor", "is", "are")
    more = " ..." if len(left_out) > MAX_SHOWN else ""
    return [
        f"{are} in one dump only and not compared, because the integer form computes them inside a node or not at all: "
        f"{', '.join(map(printable, left_out[:MAX_SHOWN]))}{more}"
    ]


def _rename(dump: VendorDump, models: Models) -> None:
    """Gives real values of a vendor's dump the name of the quantized tensor. If the dump has its integers, too, these
    count, and the tensor is missing if they contradict each other."""
    spell = dump.respell or str
    spellings = Counter(map(spell, models.onnx_names.dequantized))
    stored_by_spelling = {spell(n): s for n, s in models.onnx_names.dequantized.items() if spellings[spell(n)] == 1}
    by_stored: dict[str, list[VendorTensor]] = {}
    for tensor in dump.tensors:
        stored = stored_by_spelling.get(tensor.name)
        if stored is not None and all("float" in dtype for dtype in tensor.dtypes):
            by_stored.setdefault(stored, []).append(tensor)
    kept = {id(t): t for t in dump.tensors}
    for stored, real in by_stored.items():
        integers = [t for t in dump.tensors if t.name in (stored, spell(stored))]
        forms = [*integers, *real]
        if len(forms) > 1 and len({_codes(t, models.graph.spec(stored)) for t in forms}) > 1:
            dump.missing[stored] = f"{forms[0].name} and {forms[1].name} contradict each other"
            kept = {key: t for key, t in kept.items() if t not in forms}
            continue
        for tensor in real:
            del kept[id(tensor)]
        if not integers:
            kept[id(real[0])] = replace(real[0], name=stored)
    dump.tensors = list(kept.values())


def _codes(tensor: VendorTensor, spec: TensorSpec) -> bytes | int:
    """Returns the integers of a form of a quantized tensor, or a number of its own if they are not certain."""
    if len(tensor.dtypes) != 1 or tensor.shape != spec.shape or tensor.stored or tensor.dtypes[0] == "bfloat16":
        return id(tensor)
    values = np.frombuffer(tensor.read(), np.dtype(tensor.dtypes[0]).newbyteorder("<")).reshape(tensor.shape)
    codes = restore_codes(values, spec) if values.dtype.kind == "f" else values
    return codes.tobytes() if not isinstance(codes, str) and codes.dtype == spec.numpy_dtype else id(tensor)
