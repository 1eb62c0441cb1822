"""Horizon, D-Robotics: model_infer_output_I_NAME.bin and .txt of hrt_model_exec, its per-node layer-... files, and the
text of hrt_model_exec model_info beside them, which states type, shape, padding and scales."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from math import prod

import numpy as np

from qverify.errors import BadFileError
from qverify.plural import count
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.model_info import outputs_of
from qverify.vendor_files.printed_numbers import count_numbers, numbers
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ITEM, ReadingOptions, VendorDump, VendorTensor, spelled_loosely

WANTED = "model_infer_output_I_NAME.bin or .txt, or layer-I-...-output-K-NAME files"
CHECKED = (
    "reads files as documented and as independent scripts do; checked against real texts of model_info, not real dumps"
)
POSSIBLE_DTYPES = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "int64", "float64")
MAX_TEXT_BYTES = 1 << 28
_OUTPUT = re.compile(r"model_infer_output_(\d{1,6})(?:_(.+?))?\.(bin|txt)")
_LAYER = re.compile(r"layer-\d{1,9}-.+\.(bin|txt)")
_SPLIT = re.compile(r"-(input|output)-\d{1,6}-")
_INFO = re.compile(r".*model_info.*\.(txt|log)", re.IGNORECASE)


def recognised(folder: UntrustedFolder) -> bool:
    """Returns True if the folder contains output files. A folder with about.txt is not recognised: run.sh of qverify
    wrote it, and qvrt uses the same file names."""
    if folder.is_file:
        return False
    names = folder.names()
    return "about.txt" not in names and any(_OUTPUT.fullmatch(n) for n in names)


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads the dump. Outputs are identified by their index. The text of model_info, if present, states their name and
    type; the name in the file name must agree in letters and digits."""
    if folder.is_file:
        raise BadFileError(f"{folder.path}: a file; wanted a folder with {WANTED}")
    names = folder.names()
    infos = _infos(folder, [n for n in names if _INFO.fullmatch(n)])
    dump = VendorDump("horizon", [], None if infos else spelled_loosely)
    for name in names:
        if (match := _OUTPUT.fullmatch(name)) is not None:
            _output(dump, folder.file(name), match, infos, options)
    for index, info in infos.items():
        if all(tensor.index != index for tensor in dump.tensors):
            dump.missing.setdefault(info.name, "model_info lists it, but it has no file")
    layers = [name for name in names if _LAYER.fullmatch(name)]
    _layers(dump, folder, layers)
    if layers:
        dump.respell = spelled_loosely
        dump.notes.append("horizon: the naming and padding of per-node files was not verified on a board")
    if not infos:
        dump.notes.append(
            "horizon: no *model_info*.txt beside the files: their types and shapes are taken from the other side or -m"
        )
    counts = Counter((t.name, t.form) for t in dump.tensors)
    dump.missing |= {name: "two files of it" for (name, _), times in counts.items() if times > 1}
    dump.tensors = [t for t in dump.tensors if t.name not in dump.missing]
    return dump


def _output(
    dump: VendorDump, file: UntrustedFile, match: re.Match[str], infos: dict[int, TensorSpec], options: ReadingOptions
) -> None:
    index, spelled = int(match[1]), match[2] or ""
    info = infos.get(index)
    name = info.name if info is not None else spelled or f"#{index}"
    if infos and info is None:
        dump.missing[name] = f"output {index}: model_info lists {count(len(infos), 'output')}"
    elif spelled and spelled_loosely(spelled).strip("_") != spelled_loosely(name).strip("_"):
        dump.missing[name] = f"its file says {spelled!r}, model_info {name!r} for output {index}"
    else:
        alone = _open_tensor(file, name, match[3] == "txt")
        try:
            tensor = (
                _apply_info(alone, info, options.dtypes.get(name) or options.dtypes.get("", ""))
                if info is not None
                else alone
            )
            dump.tensors.append(replace(tensor, index=index))
        except ValueError as why:
            dump.missing[name] = f"{file.path.rsplit('/', 1)[-1]}: {why}"


def _open_tensor(file: UntrustedFile, name: str, text: bool) -> VendorTensor:
    """Returns the tensor as far as the file alone describes it: bytes of an unknown type, or real values."""
    if not text:
        return VendorTensor(
            name, file.path, POSSIBLE_DTYPES, file.size_bytes, file.whole, form="raw", inner_bytes=aligned_bytes
        )
    data = file.whole(MAX_TEXT_BYTES)
    values, decimals = numbers(data, count_numbers(data), file.path)
    content = values.astype("<f8").tobytes()
    return VendorTensor(name, file.path, ("float64",), len(content), lambda: content, form="text", decimals=decimals)


def _apply_info(alone: VendorTensor, info: TensorSpec, requested_dtype: str) -> VendorTensor:
    """Returns the tensor with the facts of model_info. A file contains the aligned or the valid elements, in the stated
    type or in float32 if the board dequantized them; whole numbers in a text are stored values. Raises ValueError if no
    combination or several fit the size."""
    if alone.form == "text":
        is_stored = alone.decimals is None and info.numpy_dtype.kind in "iu"
        fits = {
            (info.dtype if is_stored else "float64", s)
            for s in (info.shape, info.aligned_shape)
            if prod(s) * 8 == alone.size_bytes
        }
    else:
        shapes = {(d, s) for d in (info.dtype, "float32") for s in (info.shape, info.aligned_shape)}
        fits = {(d, s) for d, s in shapes if prod(s) * ITEM[d] == alone.size_bytes and requested_dtype in ("", d)}
        if info.numpy_dtype.itemsize == 4 and not requested_dtype:
            fits = {(d, s) for d, s in fits if d == info.dtype}  # hrt_model_exec writes the stated type by default
    if len(fits) != 1:
        ways = " or ".join(sorted(f"{d}{list(s)}" for d, s in fits))
        raise ValueError(f"{alone.size_bytes} bytes are {ways}; give --dtype" if fits else _unfit(alone, info))
    dtype, stored = next(iter(fits))
    read, size = alone.read, alone.size_bytes
    if alone.form == "text" and dtype != "float64":
        stored_bytes = np.frombuffer(alone.read(), "<f8").astype(info.numpy_dtype).tobytes()
        read, size = (lambda: stored_bytes), len(stored_bytes)
    tensor = replace(
        alone, dtypes=(dtype,), read=read, size_bytes=size, shape=info.shape, inner_bytes=None, layout=info.layout
    )
    tensor = replace(tensor, stored=stored if stored != info.shape else ())
    if dtype != info.dtype or not info.quantized:
        return tensor
    steps = tuple(map(_step, info.scale))
    return replace(
        tensor, scale=info.scale, zero_point=info.zero_point, channel_axis=info.channel_axis, scale_step=steps
    )


def _unfit(alone: VendorTensor, info: TensorSpec) -> str:
    size = f"{alone.size_bytes // 8} values" if alone.form == "text" else f"{alone.size_bytes} bytes"
    return f"{size} do not fit {info.dtype}{list(info.shape)}, stored as {list(info.aligned_shape)}"


def _step(scale: float) -> float:
    """Returns the largest rounding error of a printed scale: model_info prints six significant digits."""
    return 0.5 * 10.0 ** (int(f"{scale:.17e}".partition("e")[2]) - 5)


def aligned_bytes(size: int) -> int:
    """Returns the aligned size of the innermost dim on X3, J5 and X5, in bytes: 256 * n + one of 0, 16, 32, 64, 128."""
    over = size % 256
    return size - over + next(step for step in (0, 16, 32, 64, 128, 256) if over <= step)


def _layers(dump: VendorDump, folder: UntrustedFolder, names: list[str]) -> None:
    """Adds the files layer-I-OP-NODE-output-K-TENSOR. If NODE or TENSOR itself contains -output-K-, the tensor gets all
    possible names, and the names of the other side decide."""
    for name in names:
        stem, ending = name.rsplit(".", 1)
        marks = list(_SPLIT.finditer(stem))
        readings = [stem[m.end() :] for m in marks if m[1] == "output"]
        if readings and all(readings) and marks[-1][1] == "output":
            tensor = _open_tensor(folder.file(name), readings[-1], ending == "txt")
            dump.tensors.append(replace(tensor, form=f"layer {tensor.form}", other_names=tuple(readings[:-1])))


def _infos(folder: UntrustedFolder, names: list[str]) -> dict[int, TensorSpec]:
    if len(names) > 1:
        raise BadFileError(f"{folder.path}: {', '.join(names[:3])}: wanted one text of model_info")
    return outputs_of(folder.file(names[0])) if names else {}
