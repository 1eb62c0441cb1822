"""ST: the arrays that `stedgeai validate` (stm32ai, X-CUBE-AI) saves: NAME_val_io.npz, or
NAME_val_{m,c}_{inputs,outputs}_N.npy, where m is the original model on the host and c the C-model, on the host or on
the board; and NAME_validate_report.txt beside them, which must be of the same run.

The reader was tested with the texts of three real reports (Lotfi-kh/PID_adaptive_gain, TejasLamba2006/tic-tac-toe-yolo
and a log of X-CUBE-AI 10.2 on GitHub), one of them with an error of the board, and on the values of one real array, of
the C-model, from the .csv beside it. It was not tested with a real .npz."""

from __future__ import annotations

import re

from qverify.errors import BadFileError
from qverify.plural import count
from qverify.vendor_files.array_files import StoredArray, npy, npz
from qverify.vendor_files.st_report import ValidateReport, check_array, check_metrics, read_report
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, Rung, VendorDump, VendorTensor, spelled_loosely

WANTED = "NAME_val_io.npz, or NAME_val_{m,c}_{inputs,outputs}_N.npy, with NAME_validate_report.txt"
CHECKED = "checked with the texts of three real reports and the values of one real array; not with a real .npz"
ARRAYS = True  # its dumps are .npy and .npz files
SIDES = {"m": "the original model", "c": "the C-model"}
_NPZ = re.compile(r"(.+)_val_io\.npz")
_NPY = re.compile(r"(.+)_val_([mc]_(?:inputs|outputs)_\d{1,6})\.npy")
_REPORT = re.compile(r"(.+)_validate_report\.txt")
_KEY = re.compile(r"([mc])_(inputs|outputs)_(\d{1,6})")


def recognised(folder: UntrustedFolder) -> bool:
    """Returns True for the .npz of validate, or a folder with its files."""
    if folder.is_file:
        return _NPZ.fullmatch(folder.path.rsplit("/", 1)[-1]) is not None
    return any(_NPZ.fullmatch(name) or _NPY.fullmatch(name) for name in folder.names())


def rungs(folder: UntrustedFolder) -> list[Rung]:
    """Returns the original model (m) and the C-model (c), as far as the folder has their arrays."""
    try:
        _, arrays = _arrays(folder)
    except BadFileError:
        return []
    held = {key[0] for key in arrays}
    return [Rung(side, folder.path, side) for side in ("m", "c") if side in held]


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads one side. options.side: m or c. Raises BadFileError if the report beside the arrays is of another run."""
    place, arrays = _arrays(folder)
    if not arrays:
        raise BadFileError(f"{folder.path}: no array of validate in it; wanted {WANTED}")
    sides = sorted({key[0] for key in arrays})
    if options.side not in sides:
        choices = ", ".join(f"{side} ({SIDES[side]})" for side in sides)
        raise BadFileError(
            f"{folder.path}: contains {choices}; name one of them: --side {sides[-1]} (of compare also --side-a, --side-b)"
        )
    report = _report(place)
    dump = VendorDump("stm32", [], spelled_loosely)
    unstated = []
    for key, array in arrays.items():
        if report is not None and not check_array(report, key, array):
            unstated.append(key)
        if key[0] == options.side:
            dump.tensors.append(_tensor(key, array, report))
    if unread := [
        n for n in place.names() if n.endswith((".npy", ".npz")) and not (_NPZ.fullmatch(n) or _NPY.fullmatch(n))
    ]:
        dump.notes.append(f"stm32: {count(len(unread), 'file')} not read, first {unread[0]}")
    if report is None:
        dump.notes.append("stm32: no *_validate_report.txt beside the arrays: whether the run succeeded is not known")
        return dump
    for key, saved in report.arrays.items():
        if key[0] == options.side and "outputs" in key and key not in arrays:
            dump.missing[saved.name or key] = f"the report lists {key}, but it has no file"
    other = "other arrays" if unstated else "arrays"
    dump.notes.append(f"stm32: the {other} are those that the report of {report.date or 'an unknown date'} describes")
    if unstated:
        dump.notes.append(
            f"stm32: the report states nothing of {', '.join(unstated[:4])}: whether of that run is not known"
        )
    dump.notes += check_metrics(report, arrays)
    return dump


def _arrays(folder: UntrustedFolder) -> tuple[UntrustedFolder, dict[str, StoredArray]]:
    """Returns the folder, and its arrays by key. Raises BadFileError if it contains arrays of two networks, or if the
    .npz and a .npy contradict each other."""
    if folder.is_file:
        place = UntrustedFolder(folder.path.rpartition("/")[0] or ".")
        return place, _members(folder.only())
    matches = {n: match for n in folder.names() if (match := _NPZ.fullmatch(n) or _NPY.fullmatch(n)) is not None}
    if len({match[1] for match in matches.values()}) > 1:
        raise BadFileError(f"{folder.path}: {', '.join(list(matches)[:4])}: wanted those of one network")
    arrays: dict[str, StoredArray] = {}
    for name in sorted(matches, key=lambda n: n.endswith(".npy")):
        if name.endswith(".npz"):
            arrays |= _members(folder.file(name))
        else:
            array = npy(folder.file(name), matches[name][2])
            _check_twin(arrays.setdefault(array.name, array), array)
    return folder, arrays


def _members(file: UntrustedFile) -> dict[str, StoredArray]:
    return {array.name: array for array in npz(file) if _KEY.fullmatch(array.name)}


def _check_twin(array_a: StoredArray, array_b: StoredArray) -> None:
    if array_a is not array_b and (
        (array_a.dtype, array_a.shape) != (array_b.dtype, array_b.shape) or array_a.read() != array_b.read()
    ):
        raise BadFileError(f"{array_b.where}: other values than {array_a.where}; remove the one that is wrong")


def _report(place: UntrustedFolder) -> ValidateReport | None:
    names = [name for name in place.names() if _REPORT.fullmatch(name)]
    if len(names) > 1:
        raise BadFileError(f"{place.path}: {' and '.join(names[:3])}: wanted one report")
    return read_report(place.file(names[0])) if names else None


def _tensor(key: str, array: StoredArray, report: ValidateReport | None) -> VendorTensor:
    """Returns the tensor with its name in the report, or else its number. Its other name #I stands for output I of the
    model of -m."""
    _, kind, number = key.split("_")
    saved = report.arrays.get(key) if report is not None else None
    name = saved.name if saved is not None and saved.name else f"{kind}_{number}"
    index = int(number) - 1 if kind == "outputs" and int(number) else None
    other_names = (f"{kind}_{number}", *([f"#{index}"] if index is not None else []))
    return VendorTensor(
        name,
        array.where,
        (array.dtype,),
        array.size_bytes,
        array.read,
        array.shape,
        index=index,
        is_input=kind == "inputs",
        other_names=tuple(other_name for other_name in other_names if other_name != name),
    )
