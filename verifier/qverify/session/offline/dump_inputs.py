"""Compares the network's inputs that a dump contains with those of -i: with another input, every other difference means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.printable import printable
from qverify.report.facts import Finding
from qverify.session.offline.dequantized_outputs import find_quantized_ends
from qverify.sides.dumps.vendor_side import INPUTS_NOT_COMPARED
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import ITEM, VendorDump, VendorTensor

OTHER_INPUTS = "other_inputs"  # cause
UNKNOWN_OR_ROUNDING = ("accumulated_rounding", "other_rounding", "unlocated", "input_or_first_node")  # what it replaces
ALIKE = 0.98  # correlation with the input of -i, from which on a quantized input may be that one, quantized wrongly
NEAR = 2.0**-17  # relative to the largest value: of values that were printed


def compare_inputs(
    side: Recording | VendorDump, graph: Graph, given: Mapping[str, Array]
) -> tuple[list[str], list[Finding]]:
    """Returns the names, in the dump, of its inputs that are those of -i, and a finding on each other one. An input that cannot
    be read for certain is in neither. given: the inputs of -i by name."""
    same, other = list[str](), list[Finding]()
    for name, own, value, spec in [*_list_inputs(side, graph), *_list_quantized(side, graph, given)]:
        differing = _count_differing(given[name], value, spec)
        if differing is None:
            continue
        if not differing:
            same.append(own)
            continue
        what = printable(own) if own == name else f"{printable(own)}, which is {printable(name)},"
        text = f"the dump's own input {what} is not that of -i: {differing} of {count(value.size, 'element')} differ; give -i what the device was given"
        other.append(Finding("input", name, text))
    return same, other


def note_inputs(notes: Iterable[str], same: list[str], others: bool) -> list[str]:
    """Returns the notes, with what is known of the dump's inputs. same: those that -i gives as well. others: whether some are not
    those of -i."""
    kept = [n for n in notes if not ((same or others) and INPUTS_NOT_COMPARED in n)]
    return [
        *kept,
        *([f"inputs of the dump, the same as those of -i: {', '.join(map(printable, same))}"] if same else []),
    ]


def _list_inputs(side: Recording | VendorDump, graph: Graph) -> list[tuple[str, str, Array, TensorSpec]]:
    """Returns, of each input that the dump has: the network's name, the dump's, its values, and their quantization, of integers
    the model's if the dump states none."""
    if isinstance(side, Recording):
        names = [n for n in graph.inputs if n in side.tensors and n not in side.missing]
        return [
            (n, n, v := side.tensors[n], _quantization(n, v, graph, TensorSpec(n, v.dtype.name, v.shape)))
            for n in names
        ]
    tensors = [t for t in side.tensors if (t.is_input or t.name in graph.inputs) and len(t.dtypes) == 1]
    named = {t.name: t for t in tensors}
    pairs = {n: named[n] for n in graph.inputs if n in named}
    if not pairs and len(tensors) == len(graph.inputs) == len(named):
        pairs = dict(zip(graph.inputs, tensors, strict=True))
    found = []
    for name, tensor in pairs.items():
        value = _read(tensor)
        if value is not None:
            spec = TensorSpec(name, value.dtype.name, value.shape, scale=tensor.scale, zero_point=tensor.zero_point)
            found.append((name, tensor.name, value, _quantization(name, value, graph, spec)))
    return found


def _list_quantized(
    side: Recording | VendorDump, graph: Graph, given: Mapping[str, Array]
) -> list[tuple[str, str, Array, TensorSpec]]:
    """Returns, as _list_inputs(), the inputs of which the dump has only the quantized tensor that they are made into, as integers or
    real values. One that is the input of -i but for a factor and an offset is left out: a wrong quantization gives that, too."""
    known, ends = {name for name, *_ in _list_inputs(side, graph)}, find_quantized_ends(graph)
    found = list[tuple[str, str, Array, TensorSpec]]()
    for name, stored in ((n, ends[n]) for n in graph.inputs if n in ends and n in given and n not in known):
        value, spec = _read_stored(side, stored), graph.spec(stored)
        if value is None or len(spec.scale) != 1 or value.size != given[name].size:
            continue
        if value.dtype.kind == "f":  # whole steps, or what was quantized
            codes = np.clip(np.rint(to_float64(value) / spec.scale[0] + spec.zero_point[0]), *_limits(spec))
            value = np.nan_to_num(codes).astype(spec.numpy_dtype)
        if value.dtype == spec.numpy_dtype and not _is_alike(given[name], value):
            found.append((name, stored, value, spec))
    return found


def _limits(spec: TensorSpec) -> tuple[int, int]:
    limits = np.iinfo(spec.dtype)
    return int(limits.min), int(limits.max)


def _read_stored(side: Recording | VendorDump, stored: str) -> Array | None:
    if isinstance(side, Recording):
        return side.tensors[stored] if stored in side.tensors and stored not in side.missing else None
    tensor = next((t for t in side.tensors if t.name == stored and len(t.dtypes) == 1 and not t.scale), None)
    return _read(tensor) if tensor is not None else None


def _is_alike(given: Array, value: Array) -> bool:
    """Returns whether the values are those of -i but for a factor and an offset, in the order of axes in which they are so most."""
    wanted, made = to_float64(given), to_float64(value).reshape(-1)
    orders = [wanted, *([np.moveaxis(wanted, 1, -1)] if wanted.ndim > 2 else [])]
    apart = made - made.mean()
    for order in orders:
        centred = order.reshape(-1) - order.mean()
        size = float(np.sqrt(np.sum(centred**2) * np.sum(apart**2)))
        if not size or abs(float(np.sum(centred * apart))) >= ALIKE * size:
            return True
    return False


def _read(tensor: VendorTensor) -> Array | None:
    dtype = tensor.dtypes[0]
    if dtype == "bfloat16" or tensor.stored or len(tensor.scale) > 1 or tensor.size_bytes % ITEM[dtype]:
        return None
    value = np.frombuffer(tensor.read(), np.dtype(dtype).newbyteorder("<"))
    fits = tensor.shape is not None and value.size == np.prod(tensor.shape, dtype=object)
    return value.reshape(tensor.shape) if fits and tensor.shape is not None else value


def _quantization(name: str, value: Array, graph: Graph, own: TensorSpec) -> TensorSpec:
    """Returns how integers stand for real values: as stated with them, or as the model does."""
    stored = find_quantized_ends(graph).get(name)
    spec = graph.spec(stored) if stored is not None else graph.spec(name)
    return own if own.scale or value.dtype.name != spec.dtype or len(spec.scale) != 1 else spec


def _count_differing(given: Array, value: Array, spec: TensorSpec) -> int | None:
    """Returns how many elements are not those that were given, in the order of axes that has fewest; None if the values cannot be
    compared."""
    integers = value.dtype.kind in "iu" and given.dtype.kind == "f"
    if given.size != value.size or value.dtype.kind not in "iuf" or (integers and len(spec.scale) != 1):
        return None
    wanted, made, error = to_float64(given), to_float64(value), 0.0
    if integers:
        zero, limits = (spec.zero_point[0] if spec.zero_point else 0), np.iinfo(value.dtype.name)
        made = (made - zero) * spec.scale[0]
        wanted = np.clip(wanted, (limits.min - zero) * spec.scale[0], (limits.max - zero) * spec.scale[0])
        error = spec.scale[0]
    error += NEAR * float(np.abs(wanted).max(initial=0.0)) if made.dtype.kind == "f" else 0.0
    orders = [wanted, *([np.moveaxis(wanted, 1, -1)] if wanted.ndim > 2 else [])]
    return min(int(np.count_nonzero(~(np.abs(o.reshape(-1) - made.reshape(-1)) <= error))) for o in orders)
