"""Reads the reference's final outputs and the device's result from files. Both are untrusted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders import Decoder
from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular
from qverify.inputs.arrays import parse_npy, read_array_file
from qverify.outputs.device import DeviceResult, Rows, Written
from qverify.outputs.hypotheses.stride_padding import MULTIPLES
from qverify.outputs.read_rows import INFINITE_SCORE, IS_NAN, MAX_FILE_BYTES, read_numbers, read_text_file
from qverify.outputs.recipe import Output
from qverify.printable import printable
from qverify.sides.dumps.open_dump import open_dump
from qverify.tensors.recording import Recording
from qverify.vendor_files.array_files import npz
from qverify.vendor_files.untrusted_files import UntrustedFile
from qverify.vendor_files.vendor_dump import ReadingOptions

Array = npt.NDArray[Any]
MAX_OUTPUTS = 256
MAX_BYTES = 1 << 30
BYTES = (".bin", ".raw", ".dat")
ALL_FORMS = ("", "rows", "outputs", "decoded", "mask")
Quantization = tuple[float | tuple[float, ...], int | tuple[int, ...]]


def read_reference(
    path: str, side: str, frame: int, names: tuple[str, ...], quantized: Mapping[str, Quantization]
) -> dict[str, Output]:
    """Returns the final outputs by name: of a .npy or .npz, a folder or capture of qverify. side, frame: of a capture.
    names: of the outputs, () for those that the file states, or else all. quantized: scale and zero point of outputs whose
    file does not state them. Raises UsageError or BadFileError for anything else."""
    if path.lower().endswith(".npy"):
        outputs = {"output": Output(read_array_file(path))}
    else:
        dump = open_dump(path, "", ReadingOptions(side=side, frame=frame), None, "")
        if not isinstance(dump, Recording):
            raise UsageError(
                f"{path}: a vendor's dump; wanted final outputs as .npy, .npz, a capture or a folder of qverify infer"
            )
        outputs = _read_recording(dump, path, names)
    if unknown := [name for name in quantized if name not in outputs]:
        raise UsageError(f"--output {printable(unknown[0])}: {path} has {', '.join(map(printable, list(outputs)[:8]))}")
    for name, (scale, zero) in quantized.items():
        outputs[name] = _quantize(outputs[name], name, scale, zero)
    for name, output in outputs.items():
        if not output.values.size or output.values.dtype.kind not in "fiu":
            raise UsageError(f"{path}: output {printable(name)} has no real numbers; nothing to compare")
        if output.values.dtype.kind == "f" and not np.isfinite(output.values).all():
            raise UsageError(
                f"{path}: output {printable(name)} has NaN or infinite values, from which nothing can be decoded"
            )
    return outputs


def _read_recording(dump: Recording, path: str, names: tuple[str, ...]) -> dict[str, Output]:
    stated = tuple(dump.settings.get("outputs", ())) or tuple(dump.finals) or tuple(dump.specs)
    chosen = names or stated
    if missing := [name for name in chosen if name not in dump.tensors]:
        has = ", ".join(map(printable, list(dump.tensors)[:8]))
        raise UsageError(f"{path}: has no output {printable(missing[0])}; it has {has or 'none'}")
    if not 0 < len(chosen) <= MAX_OUTPUTS:
        raise UsageError(
            f"{path}: {len(chosen)} tensors; wanted 1 to {MAX_OUTPUTS} final outputs; name them with --outputs"
        )
    outputs = {}
    for name in chosen:
        spec = dump.specs[name]
        values = np.asarray(dump.tensors[name])
        stored = spec.scale if values.dtype.kind in "iu" else ()
        outputs[name] = Output(
            values, tuple(map(float, stored)), tuple(map(int, spec.zero_point)) if stored else (), spec.channel_axis
        )
    return outputs


def _quantize(output: Output, name: str, scale: float | tuple[float, ...], zero: int | tuple[int, ...]) -> Output:
    """Returns the output with its quantization; codes of a float output are recomputed, if these give it exactly."""
    scales = tuple(float(np.float32(s)) for s in (scale if isinstance(scale, tuple) else (scale,)))
    zeros = zero if isinstance(zero, tuple) else (zero,)
    if output.values.dtype.kind not in "iu":
        raise UsageError(
            f"--output {printable(name)}: its values are {output.values.dtype}; a scale is of stored integers"
        )
    if len(scales) != len(zeros) or not all(0 < s < np.inf for s in scales):
        raise UsageError(f"--output {printable(name)}: wanted as many finite scales above 0 as zero points")
    return replace(output, scale=scales, zero=zeros)


def read_device(
    path: str, decoder: Decoder | None, outputs: Mapping[str, Output], written: Written, form: str
) -> DeviceResult:
    """Returns what the device wrote. form: what arrays are: rows, outputs, decoded, mask; "" for what their names and shapes
    say. Raises UsageError or BadFileError for a file that cannot be read."""
    ending = os.path.splitext(path)[1].lower()
    kind = decoder.result if decoder is not None else ""
    if form == "decoded" and kind == "classes":
        return DeviceResult(arrays={"scores": _read_vector(path, ending, outputs)})
    if form == "decoded" and (decoder is None or decoder.candidates is None):
        named = f"{decoder.name} has" if decoder is not None else "without --decoder there are"
        raise UsageError(f"{path}: as=decoded is of every anchor of a detector, or every class; {named} none")
    if ending == ".npz":
        arrays = {a.name: np.asarray(a.array()) for a in npz(UntrustedFile(os.path.realpath(path)))}
        return _sort_arrays(arrays, path, kind, outputs, form)
    data = read_regular(path, MAX_BYTES + 1, follow=True)
    if len(data) > MAX_BYTES or (not data and ending in BYTES):
        raise UsageError(f"{path}: {'empty' if not data else f'more than {MAX_BYTES} bytes'}; nothing to compare")
    if ending == ".npy":
        return _sort_arrays({"": parse_npy(data, path)}, path, kind, outputs, form)
    if ending in BYTES:
        if form == "decoded" and decoder is not None and decoder.candidates is not None:
            return _read_decoded(data, path, decoder, outputs)
        return _read_bytes(data, path, kind, outputs, written, form)
    if decoder is None:
        raise UsageError(f"{path}: results need --decoder; without it, wanted arrays (.npy, .npz, .bin)")
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"{path}: longer than {MAX_FILE_BYTES} bytes")
    return read_text_file(data, path, written, kind)


def _read_vector(path: str, ending: str, outputs: Mapping[str, Output]) -> Array:
    """Returns the probability of each class, float64 or as stored (C,): of a .npy, an .npz with one array, float32 of a file
    of bytes, or the numbers of JSON or text. Raises UsageError for another number of them than the network gives."""
    wanted = max((output.values.size for output in outputs.values()), default=0)
    if ending in (".npz", ".npy"):
        arrays = (
            [np.asarray(a.array()) for a in npz(UntrustedFile(os.path.realpath(path)))]
            if ending == ".npz"
            else [read_array_file(path)]
        )
        if len(arrays) != 1 or arrays[0].dtype.kind not in "fiu":
            raise UsageError(f"{path}: {len(arrays)} arrays; wanted one, of the probability of each class")
        values = arrays[0].reshape(-1)
    else:
        data = read_regular(path, MAX_FILE_BYTES + 1, follow=True)
        if len(data) > MAX_FILE_BYTES or (ending in BYTES and len(data) % 4):
            raise UsageError(f"{path}: {len(data)} bytes; wanted a float32 for each of {wanted} classes")
        values = np.frombuffer(data, "<f4") if ending in BYTES else read_numbers(data, path)
    if values.size != wanted:
        raise UsageError(f"{path}: as=decoded: {values.size} numbers; wanted one for each of {wanted} classes")
    if not np.isfinite(values).all():
        raise UsageError(f"{path}: NaN or infinite numbers")
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _sort_arrays(
    arrays: dict[str, Array], path: str, kind: str, outputs: Mapping[str, Output], form: str
) -> DeviceResult:
    if not arrays:
        raise UsageError(f"{path}: contains no arrays")
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise UsageError(f"{path}: {printable(name)} is {array.dtype}; wanted numbers")
    if form == "decoded":
        return _read_named(arrays, path, kind, form)
    if len(arrays) == 1:
        (only,) = arrays.values()
        if form == "mask" or (kind == "mask" and form == ""):
            return DeviceResult(arrays={"mask": only})
        if form == "outputs" or not kind:
            if len(outputs) != 1 and next(iter(arrays)) not in outputs:
                raise UsageError(
                    f"{path}: one array, but the reference has {len(outputs)} outputs; give an .npz with their names"
                )
            name = next(iter(arrays)) if next(iter(arrays)) in outputs else next(iter(outputs))
            return DeviceResult(arrays={name: only})
        if kind in ("boxes", "classes", "keypoints", "") and only.ndim <= 3:
            return DeviceResult(rows=_rows_of_array(only, path, kind))
    if form in ("", "outputs") and all(name in outputs for name in arrays):
        return DeviceResult(arrays=arrays)
    return _read_named(arrays, path, kind, form)


def _read_named(arrays: dict[str, Array], path: str, kind: str, form: str) -> DeviceResult:
    lower = {name.lower().rpartition("/")[2]: array for name, array in arrays.items()}
    boxes = next((lower[n] for n in ("boxes", "box", "bboxes", "bbox") if n in lower), None)
    scores = next((lower[n] for n in ("scores", "score", "conf", "confidences") if n in lower), None)
    classes = next((lower[n] for n in ("classes", "class", "labels", "class_ids", "cls") if n in lower), None)
    points = next((lower[n] for n in ("landmarks", "keypoints", "kps", "points") if n in lower), None)
    if form == "decoded" and (boxes is None or scores is None):
        raise UsageError(f"{path}: as=decoded: wanted the arrays boxes and scores, of every anchor")
    if form == "decoded" or (
        form == "" and boxes is not None and scores is not None and scores.ndim == 2 and classes is None
    ):
        named = {"boxes": boxes, "scores": scores, "keypoints": points}
        return DeviceResult(
            arrays={
                n: np.asarray(v, np.float64) if v.dtype.kind != "f" else v for n, v in named.items() if v is not None
            }
        )
    if boxes is None and kind != "classes":
        raise UsageError(
            f"{path}: has {', '.join(map(printable, list(arrays)[:8]))}; wanted the reference's outputs, or boxes, scores, classes"
        )
    count = len(boxes if boxes is not None else classes if classes is not None else ())
    parts = [np.zeros((count, 0)) if boxes is None else boxes.reshape(count, -1)]
    parts += [] if points is None else [points.reshape(count, -1)]
    for other in (scores, classes):
        if other is not None and other.size != count:
            raise UsageError(f"{path}: {count} boxes, but {other.size} scores or classes")
    numbers = np.concatenate([np.asarray(p, np.float64) for p in parts], axis=1)
    return DeviceResult(rows=_finite(numbers, scores, classes, path))


def _finite(numbers: Array, scores: Array | None, classes: Array | None, path: str) -> Rows:
    if np.isnan(numbers).any() or (scores is not None and np.isnan(np.asarray(scores, np.float64)).any()):
        raise UsageError(f"{path}: {IS_NAN}")
    if scores is not None and np.isinf(np.asarray(scores, np.float64)).any():
        raise UsageError(f"{path}: {INFINITE_SCORE}")
    if classes is not None and not (np.abs(np.asarray(classes, np.float64)) <= 1 << 31).all():
        raise UsageError(f"{path}: a class that is no small whole number")
    return Rows(
        np.asarray(numbers, np.float64),
        None if scores is None else np.asarray(scores, np.float64).reshape(-1),
        None if classes is None else np.rint(np.asarray(classes, np.float64)).astype(np.int64).reshape(-1),
    )


def _rows_of_array(array: Array, path: str, kind: str) -> Rows:
    """Returns rows of x1, y1, x2, y2, score, class and further numbers; of keypoints x, y, score; of classes class, score."""
    table = np.asarray(array, np.float64)
    table = table.reshape(-1, table.shape[-1]) if table.ndim else table.reshape(1, 1)
    width = {"keypoints": 2, "classes": 0}.get(kind, 4)
    if table.shape[1] < width:
        raise UsageError(f"{path}: rows of {table.shape[1]} numbers; wanted {width} coordinates, a score, a class")
    if kind == "classes":
        return _finite(table[:, :0], table[:, 1] if table.shape[1] > 1 else None, table[:, 0], path)
    scores = table[:, width] if table.shape[1] > width else None
    classes = table[:, width + 1] if table.shape[1] > width + 1 else None
    return _finite(np.concatenate([table[:, :width], table[:, width + 2 :]], axis=1), scores, classes, path)


def _read_bytes(
    data: bytes, path: str, kind: str, outputs: Mapping[str, Output], written: Written, form: str
) -> DeviceResult:
    total = sum(o.values.size for o in outputs.values())
    stored = sum(o.values.nbytes for o in outputs.values())
    if form == "mask" or (kind == "mask" and form == ""):
        return DeviceResult(arrays={"mask": np.frombuffer(data, np.uint8)})
    sizes = {stored: None, 4 * total: np.dtype("<f4"), 2 * total: np.dtype("<f2"), 8 * total: np.dtype("<f8")}
    if form == "outputs" or (form == "" and (not kind or (len(data) in sizes and len(data) != 0))):
        if len(data) not in sizes:
            padded = _cut_padded(data, outputs)
            if padded is not None:
                return DeviceResult(arrays=padded)
            wanted = ", ".join(map(str, sizes))
            raise UsageError(
                f"{path}: {len(data)} bytes; the reference's outputs have {total} elements, wanted {wanted} bytes"
            )
        return DeviceResult(arrays=_cut_bytes(data, outputs, sizes[len(data)]))
    columns = len(written.columns) or {"classes": 2, "keypoints": 3}.get(kind, 6)
    if len(data) % (4 * columns):
        raise UsageError(f"{path}: {len(data)} bytes are no rows of {columns} float32; state columns= or as=outputs")
    return DeviceResult(rows=_rows_of_array(np.frombuffer(data, "<f4").reshape(-1, columns), path, kind))


def _cut_padded(data: bytes, outputs: Mapping[str, Output]) -> dict[str, Array] | None:
    """Returns the arrays of a buffer in which rows or channels are padded, None if no usual padding gives this size."""
    values = [o.values for o in outputs.values()]
    for multiple, axis in product(MULTIPLES, (-1, 1)):
        if axis == 1 and any(v.ndim != 4 for v in values):
            continue
        counts = [v.size // v.shape[axis] * (-(-v.shape[axis] // multiple) * multiple) for v in values]
        choices: list[list[np.dtype[Any]]] = [
            [v.dtype for v in values],
            [np.dtype("<f4")] * len(values),
            [np.dtype("<f2")] * len(values),
        ]
        for kinds in choices:
            sizes = [c * k.itemsize for c, k in zip(counts, kinds, strict=True)]
            if sum(sizes) == len(data):
                starts = np.cumsum([0, *sizes])
                parts = zip(outputs, starts[:-1].tolist(), starts[1:].tolist(), kinds, strict=True)
                return {name: np.frombuffer(data[start:end], kind) for name, start, end, kind in parts}
    return None


def _read_decoded(data: bytes, path: str, decoder: Decoder, outputs: Mapping[str, Output]) -> DeviceResult:
    """Returns boxes (N, 4), then scores (N, C), then keypoints, of all anchors in float32."""
    assert decoder.candidates is not None
    candidates = decoder.candidates({name: output.real() for name, output in outputs.items()}, decoder.settings)
    rows, classes = candidates.values.shape
    classes -= 0 <= decoder.settings.background < classes  # the background is not among the scores
    points = 0 if candidates.keypoints is None else candidates.keypoints(np.arange(min(rows, 1))).size
    widths = {"boxes": 4, "scores": classes} | ({"keypoints": points} if points else {})
    if len(data) != 4 * rows * sum(widths.values()):
        raise UsageError(f"{path}: {len(data)} bytes; wanted {rows} anchors of {sum(widths.values())} float32")
    values, at, arrays = np.frombuffer(data, "<f4"), 0, {}
    for name, width in widths.items():
        arrays[name] = values[at : at + rows * width].reshape(rows, width)
        at += rows * width
    return DeviceResult(arrays=arrays)


def _cut_bytes(data: bytes, outputs: Mapping[str, Output], dtype: np.dtype[Any] | None) -> dict[str, Array]:
    arrays, at = {}, 0
    for name, output in outputs.items():
        own = output.values.dtype if dtype is None else dtype
        size = own.itemsize * output.values.size
        arrays[name] = np.frombuffer(data[at : at + size], own)
        at += size
    return arrays


__all__ = ["BadFileError", "read_device", "read_reference"]
