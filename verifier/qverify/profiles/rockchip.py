"""Rockchip: the snapshot folder of accuracy_analysis: golden, simulator and runtime, each with one .npy or .txt per
layer (or both), and the vendor's own table, which is recomputed.

The reader was tested with snapshots of rknn-toolkit2 2.5.0 (without a board): five networks, and one of unusual names;
with one of an older version (chenhaitao405/TCN on GitHub, without a board): its map of names, its table, and two texts;
and with the table of another one (LostmanMing/yolov6_rknn, the older dialect, with a board). It was not tested with a
tensor of a board."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.plural import count
from qverify.vendor_files.array_files import npy
from qverify.vendor_files.printed_numbers import count_numbers, numbers, printed_alike
from qverify.vendor_files.rockchip_names import RULE, is_made, onnx_names
from qverify.vendor_files.rockchip_table import (
    Reals,
    Row,
    contradictions,
    describe,
    facts_of_layers,
    read_claims,
    read_rows,
)
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import LayerFacts, ReadingOptions, Rung, VendorDump, VendorTensor, spelled_loosely

WANTED = "snapshot/golden, snapshot/simulator or snapshot/runtime, with .npy files in it or in its npy/, or .txt files"
CHECKED = "checked with snapshots of rknn-toolkit2 2.5.0 and the table of a real board; not with a board's tensors"
SIDES = ("golden", "simulator", "runtime")
BOARD = "runtime"
MAP, TABLE = "map_name_to_file.txt", "error_analysis.txt"
_ROW = re.compile(r"(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s*")  # of a map whose columns are not aligned with their heads
FILE_HEAD = "file_name"
PIECE = 1 << 16  # values of a text that are compared at once
_ENDING = re.compile(r"\.(?:npy|txt)\Z")
MAX_MAP_BYTES, MAX_PRINTED_BYTES = 1 << 24, 1 << 28
MAX_RECOMPUTED = 1 << 27  # elements of a layer whose values in the table are recomputed


def recognised(folder: UntrustedFolder) -> bool:
    """Returns True for snapshot itself, and for one of its folders if it contains npy/ or lies beside the map of
    names."""
    if folder.is_file:
        return False
    inner = folder.folders()
    if "golden" in inner and {"simulator", "runtime"} & set(inner):
        return True
    is_side = os.path.basename(os.path.normpath(folder.path)) in SIDES
    return is_side and ((inner == ["npy"] and bool(_arrays(folder))) or (not inner and _beside_a_map(folder)))


def rungs(folder: UntrustedFolder) -> list[Rung]:
    """Returns golden (float), simulator and runtime, as far as snapshot has them."""
    inner = [] if folder.is_file else folder.folders()
    return [Rung(side, folder.path, side, side == "golden") for side in SIDES if side in inner]


def _beside_a_map(folder: UntrustedFolder) -> bool:
    """Returns True if the folder contains .txt files and lies beside the map of names."""
    above = os.path.dirname(os.path.abspath(folder.path))
    return bool(_arrays(folder, ".txt")) and os.path.isfile(os.path.join(above, MAP))


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads one side of the snapshot. options.side: the side, if the user named snapshot itself. If a layer has a .npy
    and a .txt, they must agree."""
    top, side = _side(folder, options.side)
    files = [*_arrays(side), *_arrays(side, ".txt")]
    if not files:
        raise BadFileError(f"{side.path}: no .npy and no .txt in it; wanted {WANTED}")
    layer_names, missing, notes = _read_map(top, {_stem(a): a for a in files})
    stems = {_stem(path): path for path in files[::-1]}  # .npy before .txt
    order = {stem: place for place, stem in enumerate(layer_names)}  # the map lists layers in running order
    listed = sorted(stems.items(), key=lambda item: (order.get(item[0], len(order)), item[0]))
    tensors = [_tensor(side.file(path), layer_names.get(stem, stem)) for stem, path in listed]
    tensors, resolved = _resolve(tensors, bool(layer_names))
    notes += resolved
    if twins := [path for path in files if path.endswith(".txt") and path not in stems.values()]:
        for path in twins:
            _check_twin(side.file(stems[_stem(path)]), side.file(path))
        notes.append(f"rockchip: {count(len(twins), 'tensor', 'is', 'are')} in two files, .npy and .txt, which agree")
    if any(path.endswith(".txt") for path in stems.values()):
        notes.append("rockchip: text tensors state neither shape nor the order of axes, and 6 decimals")
    layers = dict[str, LayerFacts]()
    if any(n in SIDES for n in top.folders()) and TABLE in top.names():
        rows, which = read_rows(top.file(TABLE)), os.path.basename(os.path.normpath(side.path))
        notes += _check_table(top, which, layer_names, rows)
        layers = facts_of_layers(rows, which)
    all_mapped = all(_stem(path) in layer_names for path in files)
    return VendorDump("rockchip", tensors, None if all_mapped else spelled_loosely, missing, notes, layers)


def _stem(path: str) -> str:
    return _ENDING.sub("", os.path.basename(path))


def _tensor(file: UntrustedFile, name: str) -> VendorTensor:
    """Returns the tensor of a .npy, or of a .txt with one number per line, which has one dimension."""
    if file.path.endswith(".npy"):
        array = npy(file, name)
        return VendorTensor(name, array.where, (array.dtype,), array.size_bytes, array.read, array.shape)
    values, decimals = _read_text(file)
    content, shape = values.astype("<f8").tobytes(), (len(values),)
    return VendorTensor(
        name, file.path, ("float64",), len(content), lambda: content, shape, flat=True, decimals=decimals
    )


def _check_twin(array: UntrustedFile, text: UntrustedFile) -> None:
    """Raises BadFileError if a .txt and its .npy contain different values. A text that is what the toolkit prints of the
    array need not be read as numbers."""
    real = npy(array, "").array().ravel()
    if _is_printed(text.whole(MAX_PRINTED_BYTES), real):
        return
    values, decimals = _read_text(text)
    if not printed_alike(values, decimals, real.astype(np.float64)):
        raise BadFileError(f"{text.path}: other values than {array.path}; remove the one that is wrong")


def _is_printed(text: bytes, real: npt.NDArray[Any]) -> bool:
    """Returns whether a text is exactly the values with 6 decimals, one a line."""
    at = 0
    for start in range(0, real.size, PIECE):
        piece = real[start : start + PIECE]
        if real.dtype.kind != "f" or not np.isfinite(piece).all():
            return False
        line = ("%f\n" * piece.size % tuple(piece.tolist())).encode()
        if text[at : at + len(line)] != line:
            return False
        at += len(line)
    return real.size > 0 and not text[at:].strip()


def _resolve(tensors: list[VendorTensor], mapped: bool) -> tuple[list[VendorTensor], list[str]]:
    """Returns the tensors with the names that the ONNX gives to the same values as further names, and a note with the
    rule. mapped: whether the names are those of the toolkit, not of files."""
    own = {t.name for t in tensors}
    names = onnx_names(t.name for t in tensors) if mapped else {}
    found = [
        replace(t, other_names=(names[t.name],), flat=True)
        if t.name in names
        else replace(t, is_inserted=True)
        if mapped and is_made(t.name, own)
        else t
        for t in tensors
    ]
    if not names:
        return found, []
    first = next(iter(names))
    return found, [
        f"rockchip: {count(len(names), 'tensor', 'is', 'are')} also known {RULE}: first {first} as {names[first]}"
    ]


def _read_text(file: UntrustedFile) -> tuple[Reals, int | None]:
    """Returns the values of a .txt and their known decimals. Raises BadFileError for an empty file."""
    data = file.whole(MAX_PRINTED_BYTES)
    if not data.strip():
        raise BadFileError(f"{file.path}: no number in it")
    return numbers(data, count_numbers(data), file.path)


def _check_table(top: UntrustedFolder, side: str, layer_names: dict[str, str], rows: list[Row]) -> list[str]:
    """Returns notes on the vendor's table, as far as it is about this side and another folder of the snapshot."""
    claims, others = read_claims(rows)
    claims = [claim for claim in claims if claim.sides[1] == side]
    if not claims:
        return []
    checked, contradicted = contradictions(
        claims, _layer_reader(top, {name: stem for stem, name in layer_names.items()})
    )
    return describe(len(claims), checked, others, contradicted)


def _layer_reader(top: UntrustedFolder, stems: dict[str, str]) -> Callable[[str, str], Reals | None]:
    """Returns a function that returns the elements of a layer on a side, or None if its file does not exist or is too
    large."""
    files_by_side = {
        side: _by_stem(UntrustedFolder(os.path.join(top.path, side))) for side in SIDES if side in top.folders()
    }

    def values(side: str, layer: str) -> Reals | None:
        path = files_by_side.get(side, {}).get(stems.get(layer, layer))
        if path is None:
            return None
        file = top.file(os.path.join(side, path))
        if file.size_bytes > MAX_RECOMPUTED * 8:
            return None
        return npy(file, layer).array().astype(np.float64).ravel() if path.endswith(".npy") else _read_text(file)[0]

    return values


def _by_stem(side: UntrustedFolder) -> dict[str, str]:
    """Returns the files of a side by their stem, .npy before .txt."""
    return {_stem(path): path for path in (*_arrays(side, ".txt"), *_arrays(side))}


def _side(folder: UntrustedFolder, requested: str) -> tuple[UntrustedFolder, UntrustedFolder]:
    """Returns the snapshot and the folder of one side."""
    if folder.is_file:
        raise BadFileError(f"{folder.path}: a file; wanted {WANTED}")
    inner = [s for s in SIDES if s in folder.folders()]
    if not inner:
        return UntrustedFolder(os.path.dirname(os.path.abspath(folder.path))), folder
    if requested not in inner:
        path = folder.path.rstrip("/")
        raise BadFileError(
            f"{path}: contains {', '.join(inner)}; name one of them: {path}/{inner[0]}, or --side {inner[0]}"
        )
    return folder, UntrustedFolder(os.path.join(folder.path, requested))


def _arrays(folder: UntrustedFolder, ending: str = ".npy") -> list[str]:
    """Returns the paths of the files with this ending in the folder or in its npy/. Raises BadFileError if both have
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


def _map_row(line: str, second: int) -> tuple[str, str] | None:
    """Returns layer and stem of its file, either of which may contain blanks if the columns are aligned with their heads.
    second: where the second one begins, or -1."""
    if 0 < second < len(line) and line[second - 1] == " " != line[second] and line[:second].strip():
        return line[:second].strip(), _stem(line[second:].strip())
    match = _ROW.fullmatch(line)
    return (match[1], _stem(match[2])) if match is not None else None


def _read_map(top: UntrustedFolder, stems: dict[str, str]) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Returns layer names by file stem, missing layers with the reason, and notes. Layers that share a file, or have
    two files, are missing."""
    if MAP not in top.names():
        return {}, {}, [f"rockchip: no {MAP}: names are those of the files"]
    text = top.file(MAP).whole(MAX_MAP_BYTES).decode("utf-8", "replace")
    rows: list[tuple[str, str]] = []
    second = -1  # where the column of files begins
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or not set(line.strip()) - {"-"}:
            continue
        if line.split()[0] == "layer_name":
            second = line.find(FILE_HEAD)
            continue
        row = _map_row(line, second)
        if row is None:
            raise BadFileError(f"{top.path}/{MAP}: line {number}: {line[:60]!r}; wanted a layer and its file")
        rows.append(row)
    names, files = (Counter(column) for column in ([n for n, _ in rows], [f for _, f in rows]))
    unique = {f: n for n, f in rows if names[n] == files[f] == 1}
    missing = {n: f"{MAP} has {n!r} or its file twice" for n, f in rows if f not in unique}
    missing |= {n: "it has no .npy and no .txt" for f, n in unique.items() if f not in stems}
    return {f: n for f, n in unique.items() if f in stems}, missing, []
