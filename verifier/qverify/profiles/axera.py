"""AXera: the folders of outputs that its tools write: gt/joint and gt/onnx of `pulsar run --output_gt`, the folder of
`run_joint --bin-out-dir`, output/N of `ax_run_model`, sim_outputs/N of `pulsar2 run`. They contain NAME.bin files, in
gt also NAME.npy.

The reader follows the documented format; it was not tested with a real folder."""

from __future__ import annotations

import os
import re

from qverify.errors import BadFileError
from qverify.vendor_files.array_files import StoredArray, npy
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump, VendorTensor, spelled_loosely

WANTED = "gt/joint or gt/onnx, a folder of NAME.bin files, or one of folders 0, 1, ... of them"
CHECKED = "reads the documented format; not checked with a folder of the vendor's own tools"
SIDES = ("joint", "onnx")
POSSIBLE_DTYPES = ("float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16")
MAX_LOG_BYTES = 1 << 24
_RANDOM = re.compile(rb"using random data|\brandom_input\b[ =:]*[Tt]rue")


def recognised(folder: UntrustedFolder) -> bool:
    """Returns True for gt, a folder that contains joint and onnx. Other folders of the vendor look like those of other
    tools."""
    return not folder.is_file and set(SIDES) <= set(folder.folders())


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads one side or frame. options.side: joint or onnx, for gt. options.frame: number of the folder, if the folders
    have numbers. A .bin file states neither type nor shape; they come from the .npy beside it, the other side, -m or
    --dtype."""
    place = _place(folder, options)
    for above in {folder.path, place.path}:
        _check_inputs(UntrustedFolder(above))
    names = [n for n in place.names() if n.endswith((".bin", ".npy"))]
    if not names:
        raise BadFileError(f"{place.path}: no .bin and no .npy in it; wanted {WANTED}")
    dump = VendorDump("axera", [], spelled_loosely)
    for name in names:
        if name.endswith(".bin") and f"{name[:-4]}.npy" in names:
            _check_twin(place.file(name), npy(place.file(f"{name[:-4]}.npy"), name[:-4]))
        else:
            dump.tensors.append(_tensor(place.file(name), name))
    return dump


def _check_twin(raw: UntrustedFile, array: StoredArray) -> None:
    """Raises BadFileError if a .bin and its .npy contain different bytes."""
    if raw.size_bytes != array.size_bytes or raw.whole() != array.read():
        raise BadFileError(f"{raw.path}: other values than {array.where}; remove the one that is wrong")


def _place(folder: UntrustedFolder, options: ReadingOptions) -> UntrustedFolder:
    """Returns the folder that contains the files."""
    if folder.is_file:
        raise BadFileError(f"{folder.path}: a file; wanted {WANTED}")
    inner = folder.folders()
    sides = [side for side in SIDES if side in inner]
    frames = sorted((name for name in inner if name.isascii() and name.isdigit()), key=lambda n: (len(n), n))
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


def _check_inputs(folder: UntrustedFolder) -> None:
    """Raises BadFileError if a log beside the files states that the inputs were random: run_joint uses random inputs if
    none are given."""
    for name in folder.names():
        if name.endswith((".log", ".txt")) and (file := folder.file(name)).size_bytes <= MAX_LOG_BYTES:
            content = file.whole(MAX_LOG_BYTES)
            if (match := _RANDOM.search(content)) is not None:
                line = content.count(b"\n", 0, match.start()) + 1
                raise BadFileError(f"{file.path}: line {line}: the run used random inputs; give it inputs")


def _tensor(file: UntrustedFile, name: str) -> VendorTensor:
    stem = name[:-4]
    if name.endswith(".npy"):
        array = npy(file, stem)
        return VendorTensor(stem, array.where, (array.dtype,), array.size_bytes, array.read, array.shape)
    return VendorTensor(stem, file.path, POSSIBLE_DTYPES, file.size_bytes, file.whole)
