"""Holds what a dump has under another spelling of a quantized tensor's name to that tensor's integers: `c2` beside
`c2_QuantizeLinear_Output`, the real values before the quantizer, NAME.bin beside NAME_QuantizeLinear_Output.npy. Only one of them is
compared, so one that contradicts it must not be overlooked."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.printable import printable
from qverify.sides.dumps.rewritten_names import match_rewritten
from qverify.sides.dumps.twin_files import RAW, TEXTS, is_undescribed, list_printed
from qverify.tensors.codes import NEAR, restore_codes
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.array_files import StoredArray, npz
from qverify.vendor_files.untrusted_files import MAX_DEPTH, UntrustedFile, UntrustedFolder

ROUNDED = 1.0 + NEAR  # of a step, by which a rounding of any kind may move a real value
Wholes = npt.NDArray[np.int64]
Read = Callable[[Array], list[Array]]
SHIFT = 128  # between a signed and an unsigned integer of 8 bits


def refuse_contradicting(
    path: str, recording: Recording, graph: Graph, quantized: Mapping[str, str], mapped: Collection[str] = ()
) -> None:
    """Raises BadFileError if the dump has other values of a quantized tensor under another spelling of its name. Arguments: as
    for find_contradicting()."""
    for _, why in find_contradicting(path, recording, graph, quantized, mapped):
        raise BadFileError(f"{path}: {why}; keep one of them")


def find_contradicting(
    path: str, recording: Recording, graph: Graph, quantized: Mapping[str, str], mapped: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yields each quantized tensor of which the dump has other values under another spelling of its name, with both names and
    how they differ.

    Args:
        path: the dump; of a folder, its raw files that were not read are held to the tensors as well.
        recording: the dump as it was read.
        graph: the graph of -m.
        quantized: the quantized tensors of the ONNX by the names of the real values that they are made of.
        mapped: names that the user has paired.
    """
    own = [n for n in recording.specs if n in recording.tensors and n not in recording.missing]
    stored = [n for n in own if n in graph.tensors and _is_quantized(graph.spec(n))]
    for name, of in _find_spellings([n for n in own if n not in mapped], stored, graph, quantized).items():
        if why := _contradict(recording.tensors[name], recording.tensors[of], graph.spec(of)):
            yield of, _describe(name, of, why)
    for file, name, read in _list_unread(path, recording):
        for of in _find_spellings([name], stored, graph, quantized).values():
            forms = read(recording.tensors[of])
            wrong = [_contradict(form, recording.tensors[of], graph.spec(of)) for form in forms]
            if wrong and all(wrong):
                yield of, _describe(file, of, wrong[-1])


def _describe(name: str, of: str, why: str) -> str:
    return f"{printable(name)} and {printable(of)} are of one tensor and contradict each other: {why}"


def _is_quantized(spec: TensorSpec) -> bool:
    return spec.quantized and spec.numpy_dtype.kind in "iu"


def _find_spellings(
    names: Collection[str], stored: list[str], graph: Graph, quantized: Mapping[str, str]
) -> dict[str, str]:
    """Returns the quantized tensors that the dump has, by those of these names that spell them otherwise. A name of a tensor
    that the graph has is no spelling of another one."""
    free = [n for n in names if n not in graph.tensors or graph.tensors[n].interior]
    rewritten, _ = match_rewritten([n for n in free if n not in quantized], _with_outputs(stored, graph))
    found = rewritten | {n: quantized[n] for n in free if n in quantized}
    return {name: of for name, of in found.items() if of in stored}


def _with_outputs(stored: list[str], graph: Graph) -> list[str]:
    """Returns the names that others may spell: a final output of real values keeps its own spellings."""
    return [*stored, *(n for n in graph.outputs if n not in stored)]


def _contradict(other: Array, own: Array, spec: TensorSpec) -> str:
    """Returns how an array contradicts the integers of a tensor, "" if it does not, or cannot be compared: it has another
    shape, or the tensor's own file has no integers."""
    if own.dtype != spec.numpy_dtype or other.shape != own.shape or other.dtype.kind not in "iuf":
        return ""
    if other.dtype.kind == "f":
        wrong, farthest = _measure_reals(other, own, spec)
    else:
        wrong, farthest = _measure_integers(other.astype(np.int64), own.astype(np.int64))
    if not wrong:
        return ""
    return f"{count(wrong, 'element', 'differs', 'differ')}, by up to {farthest:.3g} steps"


def _measure_integers(other: Wholes, own: Wholes) -> tuple[int, float]:
    """Returns how many elements differ, and by how much: as they are, or signed and unsigned alike."""
    apart = min((np.abs(other + by - own) for by in (0, SHIFT, -SHIFT)), key=lambda a: int(np.count_nonzero(a)))
    return int(np.count_nonzero(apart)), float(apart.max(initial=0))


def _measure_reals(other: Array, own: Array, spec: TensorSpec) -> tuple[int, float]:
    """Returns how many real values the integers do not stand for, and by how many steps at most. Values between the steps are
    those before they were quantized: any rounding of them is right."""
    codes = restore_codes(other, spec)
    if not isinstance(codes, str):
        return _measure_integers(codes.astype(np.int64), own.astype(np.int64))
    along = [1] * other.ndim
    if len(spec.scale) > 1:
        along[spec.channel_axis] = -1
    scale, zero = (np.array(v, np.float64).reshape(along) for v in (spec.scale, spec.zero_point))
    limits = np.iinfo(spec.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.clip(to_float64(other) / scale + zero, limits.min, limits.max)
        apart = np.abs(steps - own.astype(np.float64))
        wrong = ~(apart <= ROUNDED)
    return int(np.count_nonzero(wrong)), float(np.nanmax(apart, initial=0.0))


def _list_unread(path: str, recording: Recording) -> Iterator[tuple[str, str, Read]]:
    """Yields what a folder has beside the files that were read: raw bytes, texts of numbers and members of an .npz, each with the
    name of its tensor, and the function that returns the arrays that it may be beside the tensor's own."""
    if not is_undescribed(path):
        return
    folder = UntrustedFolder(path)
    for file in folder.names(MAX_DEPTH):
        stem, suffix = os.path.splitext(os.path.basename(file))
        if suffix == ".npz":
            for stored in npz(folder.file(file)):
                yield file, stored.name, partial(_read_member, stored)
        elif stem not in recording.specs and suffix in (*RAW, *TEXTS):
            yield file, stem, partial(_read_raw if suffix in RAW else _read_text, folder.file(file), suffix)


def _read_member(stored: StoredArray, own: Array) -> list[Array]:
    return [stored.array()] if stored.shape == own.shape else []


def _read_raw(file: UntrustedFile, suffix: str, own: Array) -> list[Array]:
    """Returns the array of a file of raw bytes, whose size shows whether they are integers or float32; [] if it does not."""
    dtype = {own.nbytes: own.dtype, own.size * 4: np.dtype("<f4")}.get(file.size_bytes)
    return [] if dtype is None else [np.frombuffer(file.whole(), dtype).reshape(own.shape)]


def _read_text(file: UntrustedFile, suffix: str, own: Array) -> list[Array]:
    """Returns the arrays that a text of as many numbers may be: real values, and integers if all are whole."""
    printed = [values for values, _ in list_printed(file, suffix) if values.size == own.size]
    whole = [v.astype(np.int64) for v in printed if np.isfinite(v).all() and (v == np.rint(v)).all()]
    return [v.reshape(own.shape) for v in (*printed, *whole)]
