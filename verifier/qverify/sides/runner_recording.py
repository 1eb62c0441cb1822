"""What a runner left as the board's recording: its files, read like a dump that was carried by hand."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Iterable

from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph
from qverify.printable import printable
from qverify.sides.dumps.open_dump import open_dump
from qverify.sides.dumps.vendor_side import OtherSide, record_dump
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec
from qverify.tensors.spool import Spool
from qverify.vendor_files.vendor_dump import ReadingOptions, spelled_loosely

SHOWN = 2
ARRAYS = (".bin", ".npy", ".raw", ".dat")  # suffixes of files of one array; a .txt may be a log
MOST_MEMBERS = 4096


def read_folder(
    folder: str, profile: str, asked: ReadingOptions, graph: Graph, model_sha256: str, spool: Spool, per_node: bool
) -> Recording:
    """Returns the files of a run as the board's recording, with every value read. Tensors are named as in the graph,
    exactly or in a vendor's spelling, never by their place. per_node: whether tensors besides the final outputs are
    read. Raises BadFileError or UsageError for files that no reader takes."""
    files = os.listdir(folder)
    alone = not profile and len(files) == 1 and files[0].endswith(".npz")
    dump = open_dump(os.path.join(folder, files[0]) if alone else folder, profile, asked, graph, model_sha256)
    if isinstance(dump, Recording):
        found = dump
        _rename_loosely(found, graph)
    else:
        specs = {name: graph.spec(name) for name in (*graph.inputs, *graph.observable())}
        against = OtherSide(specs, None, graph.tensors, graph.outputs)
        found = record_dump(dump, folder, "board", against, asked.dtypes)
    result = _as_board(found, folder, graph, spool, per_node)
    if not profile:  # the files were recognised by content, not named by a description of theirs
        _refuse_ambiguous(result, _files_by_tensor(folder, graph))
    return result


def _files_by_tensor(folder: str, graph: Graph) -> dict[str, list[str]]:
    """Returns the files, and members of .npz files, whose name spells a tensor of the graph, by tensor."""
    known = {spelled_loosely(n): n for n in graph.observable()}
    files: dict[str, list[str]] = {}
    for above, _, names in os.walk(folder):
        for name in names:
            stem, suffix = os.path.splitext(name)
            shown = os.path.relpath(os.path.join(above, name), folder)
            for one in [stem] if suffix in ARRAYS else _members(os.path.join(above, name)) if suffix == ".npz" else []:
                if tensor := known.get(spelled_loosely(one)):
                    files.setdefault(tensor, []).append(shown)
    return files


def _members(path: str) -> list[str]:
    """Returns the names of the arrays of a .npz; none of a file that is none, which its reader refuses."""
    try:
        with zipfile.ZipFile(path) as opened:
            return [name.removesuffix(".npy") for name in opened.namelist()[:MOST_MEMBERS]]
    except (OSError, ValueError, zipfile.BadZipFile):
        return []


def _refuse_ambiguous(result: Recording, files: dict[str, list[str]]) -> None:
    """Makes a tensor missing of which the runner wrote several files: any of them may be what is meant."""
    tensors = dict(result.tensors)
    for name, found in files.items():
        if len(found) > 1 and name in tensors:
            del tensors[name]
            result.missing[name] = (
                f"the runner wrote several files of it: {_some(sorted(found))}; keep one, or name a profile"
            )
    result.tensors = tensors


def _rename_loosely(found: Recording, graph: Graph) -> None:
    """Gives arrays whose file name spells exactly one tensor of the graph that tensor's name."""
    known = list(dict.fromkeys((*graph.inputs, *graph.observable())))
    times = Counter(map(spelled_loosely, known))
    spelled = {spelled_loosely(n): n for n in known if times[spelled_loosely(n)] == 1}
    theirs = Counter(spelled_loosely(n) for n in found.specs)
    names = {}
    for name in found.specs:
        loose = spelled_loosely(name)
        free = name not in graph.tensors and theirs[loose] == 1
        names[name] = spelled.get(loose, name) if free else name
    if all(old == new for old, new in names.items()):
        return
    tensors = found.tensors
    found.tensors = {names.get(n, n): tensors[n] for n in tensors}
    found.specs = {
        names[n]: graph.tensors[names[n]] if _same(s, graph, names[n]) else TensorSpec(names[n], s.dtype, s.shape)
        for n, s in found.specs.items()
    }
    found.missing = {names.get(n, n): why for n, why in found.missing.items()}


def _same(spec: TensorSpec, graph: Graph, name: str) -> bool:
    known = graph.tensors.get(name)
    return known is not None and (known.dtype, known.shape) == (spec.dtype, spec.shape)


def _as_board(found: Recording, folder: str, graph: Graph, spool: Spool, per_node: bool) -> Recording:
    """Returns the dump as the board: what it must offer are the graph's final outputs, whatever it wrote."""
    inputs = set(graph.inputs) - set(graph.outputs)
    wanted = [n for n in graph.observable() if per_node or n in graph.outputs]
    result = Recording("board", found.engine, finals=graph.outputs, settings=dict(found.settings))
    result.notes = [_short(note, folder) for note in found.notes]
    result.settings.pop("inputs", None)
    if found.state == "did not run":
        result.state, result.why = "did not run", _short(found.why, folder)
    tensors: dict[str, Array] = {}
    for name in wanted if result.state == "complete" else ():
        if name in found.tensors and name not in found.missing:
            try:
                tensors[name] = spool.keep(found.tensors[name])
                result.specs[name] = found.specs[name]
            except (BadFileError, OSError, ValueError) as error:
                result.missing[name] = _short(str(error), folder)
        elif name in found.missing:
            result.missing[name] = _short(found.missing[name], folder)
        elif name in graph.outputs:
            result.missing[name] = f"no file of it among those that the runner wrote: {_some(found.specs)}"
    strange = [n for n in found.specs if n not in graph.tensors and n not in inputs]
    result.notes += [f"files of names that the model does not have, not compared: {_some(strange)}"] if strange else []
    result.tensors = tensors
    result.specs |= {n: graph.spec(n) for n in result.missing}
    nodes = [n for n in result.specs if n not in graph.outputs and n not in graph.inputs]
    result.capabilities = frozenset({"finals", "per_node"} if nodes else {"finals"})
    return result


def _short(text: str, folder: str) -> str:
    """Returns the text without this host's temporary folder: the file is named as on the board."""
    return printable(text.replace(f"{folder}/", "").replace(folder, "the runner's files"))


def _some(names: Iterable[str]) -> str:
    known = list(names)
    return f"{', '.join(map(printable, known[:SHOWN]))}{' ...' if len(known) > SHOWN else ''}" if known else "none"
