"""Recomputes the nodes of two dumps by the model of -m, for `qverify compare`, and gives tensors the model's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.compare.judge import Judged
from qverify.compare.options import Options
from qverify.compare.two_dumps import HostUnits, locate
from qverify.compare.verdict import Locate
from qverify.errors import QVerifyError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import units
from qverify.plural import count
from qverify.printable import describe_error, printable
from qverify.report.document import Blame, Pair
from qverify.session.host_sides import HostSides
from qverify.session.models import Models
from qverify.session.node_evidence import NodeEvidence
from qverify.session.offline.dequantized_outputs import find_quantized_ends
from qverify.session.offline.input_mistakes import list_mistaken
from qverify.session.recorded_causes import name_cause
from qverify.sides.dumps.vendor_tensor import NARROW, may_store
from qverify.sides.runner_recording import rename_dequantized, rename_loosely
from qverify.tensors.codes import restore_codes
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import VendorDump, VendorTensor

MAX_SHOWN = 3  # names in a note


def find_locator(
    models: Models, same_inputs: bool, options: Options, notes: list[str], inputs: Mapping[str, Array] | None = None
) -> Locate:
    """Returns the function that recomputes the nodes of two dumps. If a side of this host cannot be opened, the
    function adds the reason to `notes` and leaves it out. same_inputs: whether both dumps are of the same inputs. inputs: as
    HostUnits.inputs."""

    def run(judged: Judged) -> list[Blame]:
        host = HostSides(models)
        try:
            run_unit, kernel_sets = host.run_units(True), host.kernel_sets()
        except QVerifyError as error:
            notes.append(f"nodes were not recomputed: {describe_error(error)}")
            run_unit, kernel_sets = {}, {}
        graph, sides = models.graph, {} if models.alone is None else {"reference": _litert()}
        names = host.distrusted, models.onnx_names.made
        mistaken = partial(_list_mistaken, graph)
        known = HostUnits(
            graph, units(graph), run_unit, sides, same_inputs, *names, kernel_sets, inputs or {}, mistaken
        )
        blamed = locate(judged, known, options)
        if models.alone is not None:
            state_of_an_onnx(judged.pair)
        evidence = NodeEvidence({r.side: r for r in (judged.a.recording, judged.b.recording)}, graph, {})
        for blame in blamed:
            if blame.side in (judged.pair.a, judged.pair.b):
                name_cause(blame, [judged.pair], evidence)
        return blamed

    return run


def state_of_an_onnx(pair: Pair) -> None:
    """Says of the compiler's option in what was found of a pair that it is one for an ONNX: a .tflite is compiled as it is."""
    option, said = "(qverify compile --rounding", "(of an ONNX: qverify compile --rounding"
    pair.arithmetics = [line.replace(option, said) for line in pair.arithmetics]
    pair.notes = [line.replace(option, said) for line in pair.notes]


def _list_mistaken(graph: Graph, name: str, intended: Array) -> Iterator[tuple[str, Array]]:
    return list_mistaken(graph.spec(name), intended)


def _litert() -> Recording:
    """Returns what is known of the reference of a .tflite without an ONNX."""
    return Recording("reference", "LiteRT", runtime="litert", kernels="litert-reference")


def use_names_of_model(side: Recording | VendorDump, models: Models, mapped: Collection[str] = ()) -> None:
    """Gives the tensors of a dump the names of the model: those whose file name spells one tensor only, and what stands under
    the ONNX's name of a dequantized tensor, which is the quantized tensor: real values, and integers also under the name of
    an input or a final output. mapped: names that --map pairs, which are left as they are."""
    if isinstance(side, VendorDump):
        resolve_names(side, models.vendor_names, models.graph.inputs)
        _rename(side, models, mapped)
        return
    rename_loosely(side, models.graph, models.onnx_names.dequantized)
    stored = {
        real: stored
        for real, stored in find_quantized_ends(models.graph).items()
        if real in side.specs and side.specs[real].dtype in NARROW
    }
    names = {n: s for n, s in {**models.onnx_names.dequantized, **stored}.items() if n not in mapped}
    rename_dequantized(side, models.graph, names)


def resolve_names(dump: VendorDump, names: Mapping[str, str], inputs: Collection[str]) -> None:
    """Gives the tensors of a toolkit's dump the names of the ONNX that was written from its statements. inputs: the
    network's, which the toolkit dumps as well."""
    if not names:
        return
    dump.tensors = [replace(t, is_input=True) if t.name in inputs else t for t in dump.tensors]
    own = {t.name for t in dump.tensors}
    taken = Counter(names.get(t.name, t.name) for t in dump.tensors)
    main = Counter(names.get(t.name, t.name) for t in dump.tensors if not t.is_inserted)

    def may_be(tensor: VendorTensor) -> bool:
        """Whether it is the one tensor of that name, or the one of several that the toolkit did not insert (NAME_reshape)."""
        name = names[tensor.name]
        return name not in own and (taken[name] == 1 or (main[name] == 1 and not tensor.is_inserted))

    dump.tensors = [
        replace(t, name=names[t.name], other_names=()) if t.name in names and may_be(t) else t for t in dump.tensors
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


def _rename(dump: VendorDump, models: Models, mapped: Collection[str]) -> None:
    """Gives what a vendor's dump has under the name of dequantized values the name of the quantized tensor: real values, and
    integers, which also the name of an input or a final output does not make real values. If the dump has its integers, too, these count,
    and the tensor is missing if they contradict each other."""
    spell, ends = dump.respell or str, find_quantized_ends(models.graph)
    stored_of = {**models.onnx_names.dequantized, **ends}
    spellings = Counter(map(spell, stored_of))
    names = {spell(n): n for n in stored_of if spellings[spell(n)] == 1}
    by_stored: dict[str, list[VendorTensor]] = {}
    for tensor in dump.tensors:
        name = names.get(tensor.name, "") if tensor.name not in mapped else ""
        is_real = name not in ends and all("float" in dtype for dtype in tensor.dtypes)
        integers = all(dtype in NARROW for dtype in tensor.dtypes)
        if name in ends and integers and not may_store(tensor, models.graph.spec(ends[name])):
            dump.notes.append(_describe_own_scale(tensor, models.graph.spec(ends[name])))
            continue  # integers of another type or scale are real values of that scale
        if name and (is_real or integers):
            by_stored.setdefault(stored_of[name], []).append(tensor)
    kept = {id(t): t for t in dump.tensors}
    for stored, real in by_stored.items():
        own = [t for t in dump.tensors if t.name in (stored, spell(stored))]
        forms = [*own, *real]
        if len(forms) > 1 and len({_codes(t, models.graph.spec(stored)) for t in forms}) > 1:
            dump.missing[stored] = f"{forms[0].name} and {forms[1].name} contradict each other"
            kept = {key: t for key, t in kept.items() if t not in forms}
            continue
        for tensor in real:
            del kept[id(tensor)]
        if not own:
            kept[id(real[0])] = replace(real[0], name=stored, index=None)  # the quantized tensor is no output
    dump.tensors = list(kept.values())


def _describe_own_scale(tensor: VendorTensor, spec: TensorSpec) -> str:
    """Returns the note on integers that are not those of the model's quantized tensor: by what they are read, and what the model
    has."""
    own = TensorSpec("", tensor.dtypes[0], (), scale=tensor.scale, zero_point=tensor.zero_point).describe_scale()
    given, wanted = f"{'/'.join(tensor.dtypes)}, {own}", f"{spec.dtype}, {spec.describe_scale()}"
    return f"{tensor.name}: {given} in the dump, by which it is read; -m has {wanted}"


def _codes(tensor: VendorTensor, spec: TensorSpec) -> bytes | int:
    """Returns the integers of a form of a quantized tensor, or a number of its own if they are not certain."""
    dtypes = tensor.dtypes if len(tensor.dtypes) == 1 else tuple(d for d in tensor.dtypes if d == spec.dtype)
    if not dtypes or tensor.shape != spec.shape or tensor.stored or dtypes[0] == "bfloat16":
        return id(tensor)
    values = np.frombuffer(tensor.read(), np.dtype(dtypes[0]).newbyteorder("<")).reshape(tensor.shape)
    codes = restore_codes(values, spec) if values.dtype.kind == "f" else values
    return codes.tobytes() if not isinstance(codes, str) and codes.dtype == spec.numpy_dtype else id(tensor)
