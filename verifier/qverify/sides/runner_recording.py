"""Reads the files that a runner wrote as the board's recording, in the same way as a dump that a user copied."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import partial

import numpy as np

from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph
from qverify.model_bin.layouts import infer_layouts
from qverify.onnx_model.dequantized_names import OnnxNames
from qverify.printable import printable
from qverify.sides.dumps.open_dump import open_dump
from qverify.sides.dumps.other_spellings import find_contradicting
from qverify.sides.dumps.twin_files import TEXTS, find_twins, is_undescribed
from qverify.sides.dumps.vendor_side import OtherSide, record_dump
from qverify.sides.tflite_files import TfliteFiles
from qverify.tensors.codes import restore_codes
from qverify.tensors.recording import NO_FILE, NO_VALUES, Array, Recording, Tensors
from qverify.tensors.spec import TensorSpec
from qverify.tensors.spool import Spool
from qverify.vendor_files.vendor_dump import ReadingOptions, spelled_loosely

MAX_SHOWN = 2  # names in a message
ARRAYS = (".bin", ".npy", ".raw", ".dat")  # suffixes of files of one array; a .txt may be a log
MAX_MEMBERS = 4096  # of an .npz


def read_folder(
    folder: str,
    profile: str,
    options: ReadingOptions,
    graph: Graph,
    model_sha256: str,
    spool: Spool,
    per_node: bool,
    names: OnnxNames | None = None,
    in_file: TfliteFiles | None = None,
) -> Recording:
    """Returns the files of a run as the board's recording, with every value read. Tensors are identified by their name
    in the graph, exact or in a vendor's spelling, never by their position. per_node: False to read the final outputs
    only. names: the ONNX's other names; real values of a quantized tensor count as its own.
    in_file: how a .tflite alone has the tensors; arrays without a profile are named and laid out so. Raises BadFileError or
    UsageError for files that no reader accepts."""
    names = names or OnnxNames()
    files = os.listdir(folder)
    is_single_npz = not profile and len(files) == 1 and files[0].endswith(".npz")
    dump = open_dump(os.path.join(folder, files[0]) if is_single_npz else folder, profile, options, graph, model_sha256)
    if isinstance(dump, Recording):
        recording = dump
        if not profile and is_undescribed(folder):
            _refuse_texts(recording, folder, ".npy")
        if in_file is not None and not profile:
            in_file.rename(recording, graph)
        rename_loosely(recording, graph, names.dequantized)
    else:
        specs = {name: graph.spec(name) for name in (*graph.inputs, *graph.observable())}
        other_side = OtherSide(specs, None, infer_layouts(graph), graph.outputs, graph.stored())
        recording = record_dump(dump, folder, "board", other_side, options.dtypes)
        if not profile and dump.profile == "raw":
            _refuse_texts(recording, folder, ".bin")
    rename_dequantized(recording, graph, names.dequantized)
    for stored, why in list(find_contradicting(folder, recording, graph, names.quantized)) if not profile else ():
        recording.missing[stored] = f"{why}; keep one, or name a profile"
    result = _as_board(recording, folder, graph, names.inner, spool, per_node)
    if not profile:  # the files were recognised by content, so nothing states which file is which tensor
        _refuse_ambiguous(result, _files_by_tensor(folder, graph))
    return result


def _refuse_texts(recording: Recording, folder: str, ending: str) -> None:
    """Marks a tensor as missing if a text beside its file (.npy, .bin) has other values. Other files of one tensor are refused by
    _refuse_ambiguous(), whatever they contain; a text with the same values is often a log for the user."""
    for name, own, other in list(find_twins(folder, recording, ending)):
        if other.endswith(TEXTS):
            recording.missing[name] = f"{own} and {other} have different values; keep one, or name a profile"


def _files_by_tensor(folder: str, graph: Graph) -> dict[str, list[str]]:
    """Returns, by tensor of the graph, the files whose name spells it, and the .npz files with such a member."""
    tensors_by_spelling = {spelled_loosely(n): n for n in graph.observable()}
    files: dict[str, list[str]] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            stem, suffix = os.path.splitext(name)
            shown = os.path.relpath(os.path.join(parent, name), folder)
            for spelling in (
                [stem] if suffix in ARRAYS else _members(os.path.join(parent, name)) if suffix == ".npz" else []
            ):
                if tensor := tensors_by_spelling.get(spelled_loosely(spelling)):
                    files.setdefault(tensor, []).append(shown)
    return files


def _members(path: str) -> list[str]:
    """Returns the names of the arrays in an .npz, or [] if it cannot be opened; its reader refuses such a file."""
    try:
        with zipfile.ZipFile(path) as opened:
            return [name.removesuffix(".npy") for name in opened.namelist()[:MAX_MEMBERS]]
    except (OSError, ValueError, zipfile.BadZipFile):
        return []


def _refuse_ambiguous(result: Recording, files: dict[str, list[str]]) -> None:
    """Marks a tensor as missing if the runner wrote several files of it, since any of them may be the right one."""
    tensors = dict(result.tensors)
    for name, paths in files.items():
        if len(paths) > 1 and name in tensors:
            del tensors[name]
            result.missing[name] = (
                f"the runner wrote several files of it: {_some(sorted(paths))}; keep one, or name a profile"
            )
    result.tensors = tensors


def rename_loosely(recording: Recording, graph: Graph, dequantized: Mapping[str, str]) -> None:
    """Renames arrays whose file name spells exactly one tensor of the graph to that tensor."""
    known = list(dict.fromkeys((*graph.inputs, *graph.observable(), *dequantized)))
    counts = Counter(map(spelled_loosely, known))
    spelled = {spelled_loosely(n): n for n in known if counts[spelled_loosely(n)] == 1}
    spellings = Counter(spelled_loosely(n) for n in recording.specs)
    names = {}
    for name in recording.specs:
        loose = spelled_loosely(name)
        may_rename = name not in graph.tensors and spellings[loose] == 1
        names[name] = spelled.get(loose, name) if may_rename else name
    if all(old == new for old, new in names.items()):
        return
    tensors = recording.tensors
    recording.tensors = {names.get(n, n): tensors[n] for n in tensors}
    recording.specs = {
        names[n]: s
        if names[n] == n
        else graph.tensors[names[n]]
        if _same(s, graph, names[n])
        else TensorSpec(names[n], s.dtype, s.shape)
        for n, s in recording.specs.items()
    }
    recording.missing = {names.get(n, n): why for n, why in recording.missing.items()}


def rename_dequantized(recording: Recording, graph: Graph, dequantized: Mapping[str, str]) -> None:
    """Gives real values the name of the quantized tensor that they stand for. If the files have several forms of it,
    the first one counts, that of the integers before those of real values; if they contradict each other, the tensor is
    missing."""
    found: dict[str, list[str]] = {}
    for name in (n for n in recording.specs if n in dequantized):
        found.setdefault(dequantized[name], []).append(name)
    loaders = {name: partial(recording.tensors.__getitem__, name) for name in recording.tensors}
    for stored, names in found.items():
        forms = [n for n in (stored, *names) if n in recording.specs]
        spec, gone = recording.specs[forms[0]], next((n for n in forms if n in recording.missing), "")
        if gone:
            recording.missing[stored] = recording.missing.pop(gone)
        elif len(forms) > 1 and not _agree([loaders[n]() for n in forms], graph.spec(stored)):
            recording.missing[stored] = f"its values in several files contradict each other: {_some(forms)}; keep one"
        elif forms[0] != stored:
            loaders[stored] = loaders[forms[0]]
        plain = graph.spec(stored) if _same(spec, graph, stored) else TensorSpec(stored, spec.dtype, spec.shape)
        recording.specs[stored] = spec if forms[0] == stored else plain
        for name in names:
            del recording.specs[name]
            loaders.pop(name, None)
            recording.missing.pop(name, None)
    recording.tensors = Tensors(loaders) if found else recording.tensors


def _agree(forms: list[Array], spec: TensorSpec) -> bool:
    """Returns whether several forms of a quantized tensor, integers or real values, stand for the same integers."""
    codes = [restore_codes(f, spec) if f.dtype.kind == "f" and f.shape == spec.shape else f for f in forms]
    first = codes[0]
    return not any(isinstance(c, str) or isinstance(first, str) or not np.array_equal(c, first) for c in codes)


def _same(spec: TensorSpec, graph: Graph, name: str) -> bool:
    known = graph.tensors.get(name)
    return known is not None and (known.dtype, known.shape) == (spec.dtype, spec.shape)


def _as_board(
    dump: Recording, folder: str, graph: Graph, inner: Collection[str], spool: Spool, per_node: bool
) -> Recording:
    """Returns the dump as the board's recording. Final outputs of the graph that the dump lacks are missing."""
    inputs = set(graph.inputs) - set(graph.outputs)
    expected = [n for n in graph.observable() if per_node or n in graph.outputs]
    result = Recording("board", dump.engine, finals=graph.outputs, settings=dict(dump.settings))
    result.notes = [_short(note, folder) for note in dump.notes]
    result.settings.pop("inputs", None)
    if dump.state in NO_VALUES:
        result.state, result.why = "not read", _short(dump.why, folder)
    tensors: dict[str, Array] = {}
    for name in expected if result.state == "complete" else ():
        if name in dump.tensors and name not in dump.missing:
            try:
                tensors[name] = spool.keep(dump.tensors[name])
                result.specs[name] = dump.specs[name]
            except (BadFileError, OSError, ValueError) as error:
                result.missing[name] = _short(str(error), folder)
        elif name in dump.missing:
            result.missing[name] = _short(dump.missing[name], folder)
        elif name in graph.outputs:
            result.missing[name] = f"{NO_FILE} among those that the runner wrote: {_some(dump.specs)}"
    unknown = [n for n in dump.specs if n not in graph.tensors and n not in inputs and n not in inner]
    fused = [n for n in dump.specs if n in inner]
    result.notes += (
        [f"not compared, because the integer form computes them inside a node: {_some(fused)}"] if fused else []
    )
    result.notes += [f"files of names that the model does not have, not compared: {_some(unknown)}"] if unknown else []
    result.tensors = tensors
    result.specs |= {n: graph.spec(n) for n in result.missing}
    nodes = [n for n in result.specs if n not in graph.outputs and n not in graph.inputs]
    result.capabilities = frozenset({"finals", "per_node"} if nodes else {"finals"})
    return result


def _short(text: str, folder: str) -> str:
    """Returns the text without this host's temporary folder, so that files are named as on the board."""
    return printable(text.replace(f"{folder}/", "").replace(folder, "the runner's files"))


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    return (
        f"{', '.join(map(printable, shown[:MAX_SHOWN]))}{' ...' if len(shown) > MAX_SHOWN else ''}" if shown else "none"
    )
