"""Qualcomm: output/Result_N/*.raw of qnn-net-run, float32, or *_native.raw in the tensor's own type."""

from __future__ import annotations

import os
import re

from qverify.errors import BadFileError
from qverify.vendor_files.untrusted_files import UntrustedFolder
from qverify.vendor_files.vendor_dump import ITEM, ReadingOptions, VendorDump, VendorTensor, spelled_loosely

WANTED = "output/ with Result_0, Result_1 ..., or one of those, with .raw files in it"
CHECKED = "reads the documented format; not checked against output of the vendor's own tool"
NATIVE = tuple(d for d in ITEM if d not in ("bfloat16", "bool", "float64"))
_RESULT = re.compile(r"Result_(\d{1,9})")


def recognised(folder: UntrustedFolder) -> bool:
    if folder.is_file:
        return False
    if _RESULT.fullmatch(os.path.basename(os.path.normpath(folder.path))):
        return bool(_raws(folder))
    return any(_RESULT.fullmatch(name) for name in folder.folders())


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads one folder Result_N, whose files do not state shapes. options.frame: N, if the user named output/."""
    if folder.is_file:
        raise BadFileError(f"{folder.path}: a file; wanted {WANTED}")
    notes = []
    if numbers := frames(folder):
        if options.frame not in numbers:
            raise BadFileError(f"{folder.path}: no Result_{options.frame}; --frame must be one of {_list(numbers)}")
        notes = (
            [f"qualcomm: Result_{options.frame} of {len(numbers)}; choose another with --frame"]
            if len(numbers) > 1
            else []
        )
        folder = UntrustedFolder(os.path.join(folder.path, f"Result_{options.frame}"))
    tensors = [_tensor(folder, name) for name in _raws(folder)]
    return VendorDump("qualcomm", tensors, spelled_loosely, {}, notes)


def frames(folder: UntrustedFolder) -> list[int]:
    """Returns the numbers of its folders Result_N."""
    return sorted(int(m[1]) for name in folder.folders() if (m := _RESULT.fullmatch(name)))


def _raws(folder: UntrustedFolder) -> list[str]:
    return [name for name in folder.names() if name.endswith(".raw")]


def _tensor(folder: UntrustedFolder, name: str) -> VendorTensor:
    file, stem = folder.file(name), name.removesuffix(".raw")
    native = stem.endswith("_native")
    return VendorTensor(
        stem.removesuffix("_native"),
        file.path,
        NATIVE if native else ("float32",),
        file.size_bytes,
        file.whole,
        form="native" if native else "float",
    )


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (" ..." if len(numbers) > 5 else "")
