"""Rockchip: the snapshot folder of accuracy_analysis: golden, simulator and runtime, each with one .npy per layer."""

from __future__ import annotations

import os
import re
from collections import Counter

from qverify.errors import BadFileError
from qverify.vendor_files.array_files import npy
from qverify.vendor_files.untrusted_files import UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump, VendorTensor, spelled_loosely

WANTED = "snapshot/golden, snapshot/simulator or snapshot/runtime, with .npy files in it or in its npy/"
CHECKED = "reads the documented format; not checked against a snapshot of the vendor's own tool"
SIDES = ("golden", "simulator", "runtime")
MAP = "map_name_to_file.txt"
_ROW = re.compile(r"(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s*")
MOST_TEXT = 1 << 24


def recognised(folder: UntrustedFolder) -> bool:
    """Tells whether this is snapshot itself, or one of its folders with the .npy files in its npy/."""
    if folder.is_file:
        return False
    inner = folder.folders()
    if "golden" in inner and {"simulator", "runtime"} & set(inner):
        return True
    return os.path.basename(os.path.normpath(folder.path)) in SIDES and inner == ["npy"] and bool(_arrays(folder))


def read(folder: UntrustedFolder, asked: ReadingOptions) -> VendorDump:
    """Reads one side of the snapshot. asked.side: which one, if snapshot itself was named."""
    top, side = _side(folder, asked.side)
    arrays = _arrays(side)
    if not arrays:
        raise BadFileError(f"{side.path}: no .npy in it; wanted {WANTED}")
    to, missing, notes = _mapped(top, {os.path.basename(a)[:-4]: a for a in arrays})
    tensors = []
    for path in arrays:
        stem = os.path.basename(path)[:-4]
        array = npy(side.file(path), to.get(stem, stem))
        tensors.append(VendorTensor(array.name, array.where, (array.dtype,), array.size_bytes, array.read, array.shape))
    whole = all(os.path.basename(path)[:-4] in to for path in arrays)
    return VendorDump("rockchip", tensors, None if whole else spelled_loosely, missing, notes)


def _side(folder: UntrustedFolder, wanted: str) -> tuple[UntrustedFolder, UntrustedFolder]:
    """Returns the snapshot and the folder of one side."""
    if folder.is_file:
        raise BadFileError(f"{folder.path}: a file; wanted {WANTED}")
    inner = [s for s in SIDES if s in folder.folders()]
    if not inner:
        return UntrustedFolder(os.path.dirname(os.path.abspath(folder.path))), folder
    if wanted not in inner:
        path = folder.path.rstrip("/")
        raise BadFileError(
            f"{path}: contains {', '.join(inner)}; name one of them: {path}/{inner[0]}, or --side {inner[0]}"
        )
    return folder, UntrustedFolder(os.path.join(folder.path, wanted))


def _arrays(folder: UntrustedFolder) -> list[str]:
    """Returns the paths of the .npy files in the folder or in its npy/. Raises BadFileError where both have some."""
    inside = [n for n in folder.names() if n.endswith(".npy")]
    below = [n for n in folder.names(2) if n.endswith(".npy") and os.path.dirname(n) == "npy"]
    if inside and below:
        raise BadFileError(
            f"{folder.path}: {inside[0]} in it and {below[0]}; wanted .npy files in one of the two places"
        )
    return inside or below


def _mapped(top: UntrustedFolder, stems: dict[str, str]) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Returns layer names by file stem, missing layers with the reason, and notes. Layers that share a file, or have
    two, are missing."""
    if MAP not in top.names():
        return {}, {}, [f"rockchip: no {MAP}: names are those of the files"]
    text = top.file(MAP).whole(MOST_TEXT).decode("utf-8", "replace")
    rows: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or not re.search(r"[A-Za-z0-9]", line) or line.split()[0] == "layer_name":
            continue
        match = _ROW.fullmatch(line)
        if match is None:
            raise BadFileError(f"{top.path}/{MAP}: line {number}: {line[:60]!r}; wanted a layer and its file")
        rows.append((match[1], os.path.basename(match[2]).removesuffix(".npy")))
    names, files = (Counter(column) for column in ([n for n, _ in rows], [f for _, f in rows]))
    plain = {f: n for n, f in rows if names[n] == files[f] == 1}
    missing = {n: f"{MAP} has {n!r} or its file twice" for n, f in rows if f not in plain}
    missing |= {n: f"its file {f}.npy does not exist" for f, n in plain.items() if f not in stems}
    return {f: n for f, n in plain.items() if f in stems}, missing, []
