"""AXera: the folders of outputs that its tools write: gt/joint and gt/onnx of `pulsar run --output_gt`, the folder of
`run_joint --bin-out-dir`, output/N of `ax_run_model`, sim_outputs/N of `pulsar2 run`. They contain NAME.bin files, in
gt also NAME.npy; and the dumps of a build, quant/debug/io/{float,quant} (outputs) and quant/debug/numpy/{float,xrun} (every
layer; xrun has integers), whose scales quant_axmodel.json states.

The reader follows the documented format; it was not tested with a real folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from qverify.errors import BadFileError
from qverify.vendor_files.array_files import StoredArray, npy
from qverify.vendor_files.axera_scales import Scale, scales_above
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, Rung, VendorDump, VendorTensor, spelled_loosely

WANTED = "gt/joint or gt/onnx, a folder of NAME.bin files, one of folders 0, 1, ... of them, or quant/debug of a build"
CHECKED = "reads the documented format; not checked with a folder of the vendor's own tools"
SIDES = ("joint", "onnx")
BUILD_SIDES = {
    "xrun": ("numpy",),
    "quant": ("io",),
    "float": ("numpy", "io"),
}  # of quant/debug, and the folders they are in
POSSIBLE_DTYPES = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16")
MAX_LOG_BYTES = 1 << 24
_RANDOM = re.compile(rb"using random data|\brandom_input\b[ =:]*[Tt]rue")


def recognised(folder: UntrustedFolder) -> bool:
    """Returns True for gt, a folder that contains joint and onnx, and for the dumps of a build. Other folders of the vendor
    look like those of other tools."""
    return not folder.is_file and (set(SIDES) <= set(folder.folders()) or _debug(folder) is not None)


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads one side or frame. options.side: joint or onnx, for gt; xrun, quant or float, for quant/debug. options.frame: number of the folder, if the folders
    have numbers. A .bin file states neither type nor shape; they come from the .npy beside it, the other side, -m or
    --dtype."""
    place = _place(folder, options)
    for above in {folder.path, place.path}:
        _check_inputs(UntrustedFolder(above))
    names = [n for n in place.names() if n.endswith((".bin", ".npy"))]
    if not names:
        raise BadFileError(f"{place.path}: no .bin and no .npy in it; wanted {WANTED}")
    dump = VendorDump("axera", [], spelled_loosely)
    scales = scales_above(place.path)
    for name in names:
        if name.endswith(".bin") and f"{name[:-4]}.npy" in names:
            _check_twin(place.file(name), npy(place.file(f"{name[:-4]}.npy"), name[:-4]))
        else:
            dump.tensors.append(_tensor(place.file(name), name, scales))
    return dump


def _check_twin(raw: UntrustedFile, array: StoredArray) -> None:
    """Raises BadFileError if a .bin and its .npy contain different bytes."""
    if raw.size_bytes != array.size_bytes or raw.whole() != array.read():
        raise BadFileError(f"{raw.path}: other values than {array.where}; remove the one that is wrong")


def frames(folder: UntrustedFolder) -> list[int]:
    """Returns the numbers of the folders 0, 1, ... of frames."""
    return [] if folder.is_file or recognised(folder) else _numbers(folder.folders())


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(name) for name in names if name.isascii() and name.isdigit() and str(int(name)) == name)


def rungs(folder: UntrustedFolder) -> list[Rung]:
    """Returns the sides of gt (onnx, joint), or of the dumps of a build (float, quant, xrun), as far as they are there."""
    if folder.is_file:
        return []
    if (debug := _debug(folder)) is not None:
        held = _sides_of_build(debug)
        return [Rung(side, folder.path, side, side == "float") for side in ("float", "quant", "xrun") if side in held]
    return [Rung(side, folder.path, side, side == "onnx") for side in ("onnx", "joint") if side in folder.folders()]


def _place(folder: UntrustedFolder, options: ReadingOptions) -> UntrustedFolder:
    """Returns the folder that contains the files."""
    if folder.is_file:
        raise BadFileError(f"{folder.path}: a file; wanted {WANTED}")
    if (debug := _debug(folder)) is not None:
        return _side_of_build(debug, options.side)
    inner = folder.folders()
    sides = [side for side in SIDES if side in inner]
    frames = [str(number) for number in _numbers(inner)]
    if sides and options.side not in sides:
        path = folder.path.rstrip("/")
        raise BadFileError(
            f"{path}: contains {', '.join(sides)}; name one of them: {path}/{sides[0]}, or --side {sides[0]}"
        )
    if sides:
        return UntrustedFolder(os.path.join(folder.path, options.side))
    if frames and str(options.frame) not in frames:
        raise BadFileError(f"{folder.path}: contains {', '.join(frames[:4])}; there is no frame {options.frame}")
    return UntrustedFolder(os.path.join(folder.path, str(options.frame))) if frames else folder


def _debug(folder: UntrustedFolder) -> UntrustedFolder | None:
    """Returns the folder debug of a build, given itself, quant, or the folder of the build; None for another folder."""
    for name in ("", "debug", "quant/debug"):
        steps, here = name.split("/") if name else [], folder
        for step in steps:
            if here.is_file or step not in here.folders():
                break
            here = UntrustedFolder(os.path.join(here.path, step))
        else:
            pairs = (("numpy", "xrun"), ("io", "quant"))
            if any(k in here.folders() and {"float", s} <= set(_inner(here, k).folders()) for k, s in pairs):
                return here
    return None


def _inner(folder: UntrustedFolder, name: str) -> UntrustedFolder:
    return UntrustedFolder(os.path.join(folder.path, name))


def _sides_of_build(debug: UntrustedFolder) -> dict[str, UntrustedFolder]:
    """Returns the folders of the sides of quant/debug by name."""
    return {
        name: _inner(_inner(debug, kind), name)
        for name, kinds in BUILD_SIDES.items()
        for kind in reversed(kinds)
        if kind in debug.folders() and name in _inner(debug, kind).folders()
    }


def _side_of_build(debug: UntrustedFolder, side: str) -> UntrustedFolder:
    """Returns the folder of a side of quant/debug: every layer if the build has them, else the outputs."""
    held = _sides_of_build(debug)
    if side not in held:
        path = debug.path.rstrip("/")
        raise BadFileError(f"{path}: contains {', '.join(held)}; name one of them: --side {next(iter(held))}")
    return held[side]


def _check_inputs(folder: UntrustedFolder) -> None:
    """Raises BadFileError if a log beside the files states that the inputs were random: run_joint uses random inputs if
    none are given."""
    for name in folder.names():
        if name.endswith((".log", ".txt")) and (file := folder.file(name)).size_bytes <= MAX_LOG_BYTES:
            content = file.whole(MAX_LOG_BYTES)
            if (match := _RANDOM.search(content)) is not None:
                line = content.count(b"\n", 0, match.start()) + 1
                raise BadFileError(f"{file.path}: line {line}: the run used random inputs; give it inputs")


def _tensor(file: UntrustedFile, name: str, scales: Mapping[str, Scale]) -> VendorTensor:
    """Returns a tensor; one of integers has the scale that the build states."""
    stem = name[:-4]
    if name.endswith(".npy"):
        array = npy(file, stem)
        tensor = VendorTensor(stem, array.where, (array.dtype,), array.size_bytes, array.read, array.shape)
        if array.dtype.removeprefix("u").startswith("int") and stem in scales:
            return replace(tensor, scale=scales[stem][:1], zero_point=scales[stem][1:])
        return tensor
    return VendorTensor(stem, file.path, POSSIBLE_DTYPES, file.size_bytes, file.whole)
