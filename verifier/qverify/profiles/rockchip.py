"""Rockchip: the snapshot folder of accuracy_analysis: golden, simulator and runtime, each with one .npy or .txt per
layer (or both), and the vendor's own table, which is recomputed.

Tried on one real snapshot (chenhaitao405/TCN on GitHub, without a board): its map of names, its table, and the texts
golden/torque_int8.txt and simulator/_linear_Gemm_output_0_mm.txt, whose cosine and distance are the table's; and on the
table of another (LostmanMing/yolov6_rknn, the older dialect, with a board). No real .npy, no tensor of a board."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from qverify.errors import BadFileError
from qverify.plural import count
from qverify.vendor_files.array_files import npy
from qverify.vendor_files.printed_numbers import count_numbers, numbers
from qverify.vendor_files.rockchip_table import Reals, contradictions, describe, read_claims
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump, VendorTensor, spelled_loosely

WANTED = "snapshot/golden, snapshot/simulator or snapshot/runtime, with .npy files in it or in its npy/, or .txt files"
CHECKED = "checked with a real snapshot's map and table and two of its text tensors, and the table of a real board; not with a board's tensors"
SIDES = ("golden", "simulator", "runtime")
MAP, TABLE = "map_name_to_file.txt", "error_analysis.txt"
_ROW = re.compile(r"(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s*")
_ENDING = re.compile(r"\.(?:npy|txt)\Z")
MOST_TEXT, MOST_PRINTED = 1 << 24, 1 << 28
MOST_RECOMPUTED = 1 << 27  # elements of a layer of the table


def recognised(folder: UntrustedFolder) -> bool:
    """Tells whether this is snapshot itself, or one of its folders with the .npy files in its npy/."""
    if folder.is_file:
        return False
    inner = folder.folders()
    if "golden" in inner and {"simulator", "runtime"} & set(inner):
        return True
    own = os.path.basename(os.path.normpath(folder.path)) in SIDES
    return own and ((inner == ["npy"] and bool(_arrays(folder))) or (not inner and _beside_a_map(folder)))


def _beside_a_map(folder: UntrustedFolder) -> bool:
    """Tells whether a folder of texts alone lies beside the map of names."""
    above = os.path.dirname(os.path.abspath(folder.path))
    return bool(_arrays(folder, ".txt")) and os.path.isfile(os.path.join(above, MAP))


def read(folder: UntrustedFolder, asked: ReadingOptions) -> VendorDump:
    """Reads one side of the snapshot. asked.side: which one, if snapshot itself was named. The .txt of a layer that
    has a .npy as well must agree with it."""
    top, side = _side(folder, asked.side)
    files = [*_arrays(side), *_arrays(side, ".txt")]
    if not files:
        raise BadFileError(f"{side.path}: no .npy and no .txt in it; wanted {WANTED}")
    to, missing, notes = _mapped(top, {_stem(a): a for a in files})
    stems = {_stem(path): path for path in files[::-1]}  # .npy before .txt
    tensors = [_tensor(side.file(path), to.get(stem, stem)) for stem, path in sorted(stems.items())]
    if twins := [path for path in files if path.endswith(".txt") and path not in stems.values()]:
        for path in twins:
            _check_twin(side.file(stems[_stem(path)]), side.file(path))
        notes.append(f"rockchip: {count(len(twins), 'tensor', 'is', 'are')} in two files, .npy and .txt, which agree")
    if any(path.endswith(".txt") for path in stems.values()):
        notes.append("rockchip: text tensors state neither shape nor the order of axes, and 6 decimals")
    if any(n in SIDES for n in top.folders()) and TABLE in top.names():
        notes += _check_table(top, os.path.basename(os.path.normpath(side.path)), to)
    whole = all(_stem(path) in to for path in files)
    return VendorDump("rockchip", tensors, None if whole else spelled_loosely, missing, notes)


def _stem(path: str) -> str:
    return _ENDING.sub("", os.path.basename(path))


def _tensor(file: UntrustedFile, name: str) -> VendorTensor:
    """Opens a .npy, or a .txt of one number a line: one dimension."""
    if file.path.endswith(".npy"):
        array = npy(file, name)
        return VendorTensor(name, array.where, (array.dtype,), array.size_bytes, array.read, array.shape)
    values, decimals = _printed(file)
    content, shape = values.astype("<f8").tobytes(), (len(values),)
    return VendorTensor(
        name, file.path, ("float64",), len(content), lambda: content, shape, flat=True, decimals=decimals
    )


def _check_twin(array: UntrustedFile, text: UntrustedFile) -> None:
    """Raises BadFileError where a .txt does not contain what its .npy does."""
    values, decimals = _printed(text)
    real = npy(array, "").array().astype(np.float64).ravel()
    near = 0.0 if decimals is None else 0.5 * 10.0**-decimals
    with np.errstate(invalid="ignore"):
        same = real.size == values.size and np.isclose(values, real, rtol=1e-6, atol=near * 1.01, equal_nan=True).all()
    if not same:
        raise BadFileError(f"{text.path}: other values than {array.path}; remove the one that is wrong")


def _printed(file: UntrustedFile) -> tuple[Reals, int | None]:
    """Returns the values and their known decimals. Raises BadFileError for an empty file."""
    data = file.whole(MOST_PRINTED)
    if not data.strip():
        raise BadFileError(f"{file.path}: no number in it")
    return numbers(data, count_numbers(data), file.path)


def _check_table(top: UntrustedFolder, side: str, to: dict[str, str]) -> list[str]:
    """Returns notes on the vendor's table, as far as it is about this side and another folder of the snapshot."""
    claims, others = read_claims(top.file(TABLE))
    about = [claim for claim in claims if claim.sides[1] == side]
    if not about:
        return []
    checked, wrong = contradictions(about, _layers(top, {name: stem for stem, name in to.items()}))
    return describe(len(about), checked, others, wrong)


def _layers(top: UntrustedFolder, stems: dict[str, str]) -> Callable[[str, str], Reals | None]:
    """Returns the function from side and layer to its elements; None where there is no file, or too large a one."""
    there = {side: _by_stem(UntrustedFolder(os.path.join(top.path, side))) for side in SIDES if side in top.folders()}

    def values(side: str, layer: str) -> Reals | None:
        path = there.get(side, {}).get(stems.get(layer, layer))
        if path is None:
            return None
        file = top.file(os.path.join(side, path))
        if file.size_bytes > MOST_RECOMPUTED * 8:
            return None
        return npy(file, layer).array().astype(np.float64).ravel() if path.endswith(".npy") else _printed(file)[0]

    return values


def _by_stem(side: UntrustedFolder) -> dict[str, str]:
    """Returns the files of a side by their stem, .npy before .txt."""
    return {_stem(path): path for path in (*_arrays(side, ".txt"), *_arrays(side))}


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


def _arrays(folder: UntrustedFolder, ending: str = ".npy") -> list[str]:
    """Returns the paths of the files of this ending in the folder or in its npy/. Raises BadFileError where both have
    some."""
    inside = _ended(folder.names(), ending, "")
    below = _ended(folder.names(2), ending, "npy")
    if inside and below:
        raise BadFileError(
            f"{folder.path}: {inside[0]} in it and {below[0]}; wanted {ending} files in one of the two places"
        )
    return inside or below


def _ended(names: Iterable[str], ending: str, folder: str) -> list[str]:
    return [n for n in names if n.endswith(ending) and os.path.dirname(n) == folder and n not in (MAP, TABLE)]


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
        rows.append((match[1], _stem(match[2])))
    names, files = (Counter(column) for column in ([n for n, _ in rows], [f for _, f in rows]))
    plain = {f: n for n, f in rows if names[n] == files[f] == 1}
    missing = {n: f"{MAP} has {n!r} or its file twice" for n, f in rows if f not in plain}
    missing |= {n: f"neither {f}.npy nor {f}.txt exists" for f, n in plain.items() if f not in stems}
    return {f: n for f, n in plain.items() if f in stems}, missing, []
