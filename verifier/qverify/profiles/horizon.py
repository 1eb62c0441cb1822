"""Horizon, D-Robotics: model_infer_output_I_NAME.bin and .txt of hrt_model_exec, its per-node layer-... files, and beside them
the text of hrt_model_exec model_info, which tells type, shape, padding and scales."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from math import prod

import numpy as np

from qverify.errors import BadFileError
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.model_info import outputs_of
from qverify.vendor_files.printed_numbers import count_numbers, numbers
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ITEM, ReadingOptions, VendorDump, VendorTensor, spelled_loosely

WANTED = "model_infer_output_I_NAME.bin or .txt, or layer-I-...-output-K-NAME files"
CHECKED = "read as its files are described and independent scripts read them; of real files only texts of model_info were at hand"
UNTOLD = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "int64", "float64")
MOST_TEXT = 1 << 28
_OUTPUT = re.compile(r"model_infer_output_(\d{1,6})(?:_(.+?))?\.(bin|txt)")
_LAYER = re.compile(r"layer-\d{1,9}-.+\.(bin|txt)")
_SPLIT = re.compile(r"-(input|output)-\d{1,6}-")
_INFO = re.compile(r".*model_info.*\.(txt|log)", re.IGNORECASE)


def recognised(folder: UntrustedFolder) -> bool:
    """Not where run.sh of qverify left about.txt: qvrt names its outputs alike."""
    if folder.is_file:
        return False
    names = folder.names()
    return "about.txt" not in names and any(_OUTPUT.fullmatch(n) for n in names)


def read(folder: UntrustedFolder, asked: ReadingOptions) -> VendorDump:
    """Outputs by their index; with model_info by what it says of that index, the name confirmed as far as its letters go."""
    if folder.is_file:
        raise BadFileError(f"{folder.path}: a file; wanted a folder with {WANTED}")
    names = folder.names()
    infos = _infos(folder, [n for n in names if _INFO.fullmatch(n)])
    dump = VendorDump("horizon", [], None if infos else spelled_loosely)
    for name in names:
        if (match := _OUTPUT.fullmatch(name)) is not None:
            _output(dump, folder.file(name), match, infos, asked)
    for index, info in infos.items():
        if all(tensor.index != index for tensor in dump.tensors):
            dump.missing.setdefault(info.name, "model_info lists it, and no file of it is there")
    layers = [name for name in names if _LAYER.fullmatch(name)]
    _layers(dump, folder, layers)
    if layers:
        dump.written = spelled_loosely
        dump.notes.append("horizon: how per-node files are named and padded was not verified on a board")
    if not infos:
        dump.notes.append(
            "horizon: no *model_info*.txt beside the files: their types and shapes are taken from the other side or -m"
        )
    twice = Counter((t.name, t.form) for t in dump.tensors)
    dump.missing |= {name: "two files of it" for (name, _), count in twice.items() if count > 1}
    dump.tensors = [t for t in dump.tensors if t.name not in dump.missing]
    return dump


def _output(
    dump: VendorDump, file: UntrustedFile, match: re.Match[str], infos: dict[int, TensorSpec], asked: ReadingOptions
) -> None:
    index, said = int(match[1]), match[2] or ""
    info = infos.get(index)
    name = info.name if info is not None else said or f"#{index}"
    if infos and info is None:
        dump.missing[name] = f"output {index}: model_info lists {len(infos)} outputs"
    elif said and spelled_loosely(said).strip("_") != spelled_loosely(name).strip("_"):
        dump.missing[name] = f"its file says {said!r}, model_info {name!r} for output {index}"
    else:
        held = _held(file, name, match[3] == "txt")
        try:
            found = _told(held, info, asked.dtypes.get(name) or asked.dtypes.get("", "")) if info is not None else held
            dump.tensors.append(replace(found, index=index))
        except ValueError as why:
            dump.missing[name] = f"{file.path.rsplit('/', 1)[-1]}: {why}"


def _held(file: UntrustedFile, name: str, text: bool) -> VendorTensor:
    """What the file alone tells: bytes of any type, or real values."""
    if not text:
        return VendorTensor(name, file.path, UNTOLD, file.size_bytes, file.whole, form="raw", inner_bytes=aligned_bytes)
    data = file.whole(MOST_TEXT)
    values, decimals = numbers(data, count_numbers(data), file.path)
    held = values.astype("<f8").tobytes()
    return VendorTensor(name, file.path, ("float64",), len(held), lambda: held, form="text", decimals=decimals)


def _told(held: VendorTensor, info: TensorSpec, asked: str) -> VendorTensor:
    """As model_info says: aligned or valid elements, in the type it names, or float32 where the board dequantized them;
    text of whole numbers are stored values. ValueError where that does not fit, or not only in one way."""
    if held.form == "text":
        stands = held.decimals is None and info.numpy_dtype.kind in "iu"
        fits = {
            (info.dtype if stands else "float64", s)
            for s in (info.shape, info.aligned_shape)
            if prod(s) * 8 == held.size_bytes
        }
    else:
        shapes = {(d, s) for d in (info.dtype, "float32") for s in (info.shape, info.aligned_shape)}
        fits = {(d, s) for d, s in shapes if prod(s) * ITEM[d] == held.size_bytes and asked in ("", d)}
        if info.numpy_dtype.itemsize == 4 and not asked:
            fits = {(d, s) for d, s in fits if d == info.dtype}  # what hrt_model_exec writes unless told to dequantize
    if len(fits) != 1:
        ways = " or ".join(sorted(f"{d}{list(s)}" for d, s in fits))
        raise ValueError(f"{held.size_bytes} bytes are {ways}: --dtype tells" if fits else _unfit(held, info))
    dtype, stored = next(iter(fits))
    read, size = held.read, held.size_bytes
    if held.form == "text" and dtype != "float64":
        whole = np.frombuffer(held.read(), "<f8").astype(info.numpy_dtype).tobytes()
        read, size = (lambda: whole), len(whole)
    found = replace(held, dtypes=(dtype,), read=read, size_bytes=size, shape=info.shape, inner_bytes=None)
    found = replace(found, stored=stored if stored != info.shape else ())
    if dtype != info.dtype or not info.quantized:
        return found
    steps = tuple(map(_step, info.scale))
    return replace(
        found, scale=info.scale, zero_point=info.zero_point, channel_axis=info.channel_axis, scale_step=steps
    )


def _unfit(held: VendorTensor, info: TensorSpec) -> str:
    size = f"{held.size_bytes // 8} values" if held.form == "text" else f"{held.size_bytes} bytes"
    return f"{size} are no {info.dtype}{list(info.shape)}, stored as {list(info.aligned_shape)}"


def _step(scale: float) -> float:
    """model_info prints six significant digits."""
    return 0.5 * 10.0 ** (math.floor(math.log10(scale)) - 5)


def aligned_bytes(size: int) -> int:
    """What becomes of the innermost dim's bytes on X3, J5 and X5: 256 * n + one of 0, 16, 32, 64, 128."""
    over = size % 256
    return size - over + next(step for step in (0, 16, 32, 64, 128, 256) if over <= step)


def _layers(dump: VendorDump, folder: UntrustedFolder, names: list[str]) -> None:
    """layer-I-OP-NODE-output-K-TENSOR: where NODE or TENSOR hold such a mark themselves, every reading is offered, and the
    other side's names decide."""
    for name in names:
        stem, ending = name.rsplit(".", 1)
        marks = list(_SPLIT.finditer(stem))
        readings = [stem[m.end() :] for m in marks if m[1] == "output"]
        if readings and all(readings) and marks[-1][1] == "output":
            held = _held(folder.file(name), readings[-1], ending == "txt")
            dump.tensors.append(replace(held, form=f"layer {held.form}", others=tuple(readings[:-1])))


def _infos(folder: UntrustedFolder, names: list[str]) -> dict[int, TensorSpec]:
    if len(names) > 1:
        raise BadFileError(f"{folder.path}: {', '.join(names[:3])}: one text of model_info is wanted")
    return outputs_of(folder.file(names[0])) if names else {}
