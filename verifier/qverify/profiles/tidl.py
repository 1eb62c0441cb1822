"""TI TIDL: a folder of layer traces, .y in the layer's own type and _float.bin, with *.layer_info.txt for the names."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass

from qverify.errors import BadFileError
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump, VendorTensor, count_elements, whole_number

WANTED = "tidl_trace_subgraph_S_DATAID_..._WxH.y or _float.bin files"
CHECKED = "reads the documented format; not checked against a trace of the vendor's own tools"
PLACES = ("", "tempDir", os.path.join("artifacts", "tempDir"))
DTYPES_BY_SIZE = {1: ("int8", "uint8"), 2: ("int16", "uint16"), 4: ("float32", "int32")}
MAX_TEXT_BYTES = 1 << 24
_SIZES = r"(?P<width>\d{1,9})x(?P<height>\d{1,9})(?P<end>\.y|_float\.bin)"
FORMS = (
    re.compile(
        r"tidl_trace_subgraph_(?P<graph>\d{1,9})_(?P<data>\d{1,9})_(?P<batch>\d{1,9})_(?P<dim1>\d{1,9})_(?P<dim2>\d{1,9})_"
        r"(?P<channels>\d{1,9})_" + _SIZES
    ),
    re.compile(
        r"tidl_trace_?(?:subgraph_(?P<graph>\d{1,9})_)?(?P<data>\d{1,9})_(?P<batch>\d{1,9})_(?P<channels>\d{1,9})_"
        + _SIZES
    ),
    re.compile(r".+\.txt_(?P<data>\d{1,9})_(?P<channels>\d{1,9})_" + _SIZES),
)
_CORE = re.compile(r"C7x_\d+_.*(\.y|_float\.bin)")
_INFO = re.compile(r"(?:.*_)?subgraph_(\d{1,9})_tidl_net\.bin\.layer_info\.txt")


@dataclass(frozen=True, slots=True)
class Trace:
    """The facts that a file name states. graph: number of the subgraph. data: the dataId. shape: shape of the valid
    elements. real: True for float32 values."""

    name: str
    graph: int
    data: int
    shape: tuple[int, ...]
    real: bool


def recognised(folder: UntrustedFolder) -> bool:
    """Returns True if file names begin with the vendor's prefix. Dumps with the oldest names, without it, are not
    recognised."""
    return not folder.is_file and any(n.startswith("tidl_trace") and _trace(n) for n in folder.names())


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads the dump. options.layer_info: file or folder with the names of the tensors; "" for those beside the traces.
    A tensor gets the name of its dataId."""
    if folder.is_file:
        raise BadFileError(f"{folder.path}: a file; wanted a folder of {WANTED}")
    files = folder.names()
    traces = [t for t in map(_trace, files) if t is not None]
    names = _Names(folder, options.layer_info, {t.graph for t in traces})
    missing = {n: "only one core's part; join the parts first" for n in files if _CORE.fullmatch(n)}
    by_form: dict[tuple[str, bool], VendorTensor] = {}
    for trace in traces:
        name = names.of(trace)
        if (name, trace.real) in by_form:
            missing[name] = "two traces of it, or two of that name"
            continue
        tensor = _tensor(folder.file(trace.name), name, trace)
        if tensor is None:
            missing[name] = f"{trace.name}: its size does not fit {list(trace.shape)}"
        else:
            by_form[name, trace.real] = tensor
    missing |= names.doubtful
    tensors = [t for t in by_form.values() if t.name not in missing]
    return VendorDump("tidl", tensors, None, missing, names.notes)


def _trace(name: str) -> Trace | None:
    for form in FORMS:
        if (match := form.fullmatch(name)) is not None:
            fields = match.groupdict()
            outer = [fields[d] for d in ("batch", "dim1", "dim2") if fields.get(d) is not None] or ["1"]
            shape = (*outer, fields["channels"], fields["height"], fields["width"])
            sizes = tuple(int(d) for d in shape)
            return Trace(name, int(fields.get("graph") or 0), int(fields["data"]), sizes, fields["end"] != ".y")
    return None


def _tensor(file: UntrustedFile, name: str, trace: Trace) -> VendorTensor | None:
    """Returns the tensor, or None if the size of its file does not fit the shape in its name."""
    count = count_elements(trace.shape, file.path)
    size, over = divmod(file.size_bytes, count) if count else (0, 1)
    dtypes = ("float32",) if trace.real else DTYPES_BY_SIZE.get(size)
    if over or dtypes is None or (trace.real and size != 4):
        return None
    form = "float" if trace.real else "fixed"
    return VendorTensor(name, file.path, dtypes, file.size_bytes, file.whole, trace.shape, form=form)


class _Names:
    """The name of each dataId, by subgraph. doubtful: ambiguous names, with the reason: a dataId has two, or two
    dataIds have the same."""

    def __init__(self, folder: UntrustedFolder, path: str, graphs: set[int]):
        self.by_id: dict[tuple[int, int], str] = {}
        self.doubtful: dict[str, str] = {}
        self.notes: list[str] = []
        files = _info_files(folder, path)
        for file in files:
            match = _INFO.fullmatch(os.path.basename(file.path))
            if match is None and (len(files) > 1 or len(graphs) > 1):
                raise BadFileError(f"{file.path}: its subgraph is not known; leave only one such file")
            self._take(file, int(match[1]) if match else next(iter(graphs), 0))
        if not files:
            self.notes.append("tidl: no *.layer_info.txt: tensors are named by subgraph and dataId (--layer-info DIR)")
        counts = Counter(self.by_id.values())
        self.doubtful |= {n: "layer_info has this name for two dataIds" for n in counts if counts[n] > 1}

    def of(self, trace: Trace) -> str:
        return self.by_id.get((trace.graph, trace.data), f"subgraph {trace.graph} dataId {trace.data}")

    def _take(self, file: UntrustedFile, graph: int) -> None:
        text = file.whole(MAX_TEXT_BYTES).decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            where, columns = f"{file.path}: line {number}", line.split(None, 2)
            if len(columns) != 3:
                raise BadFileError(f"{where}: {line[:60]!r}; wanted layerId, dataId and name")
            whole_number(columns[0], where)
            key, name = (graph, whole_number(columns[1], where)), columns[2].strip()
            if self.by_id.setdefault(key, name) != name:
                self.doubtful[self.by_id[key]] = f"layer_info calls dataId {key[1]} {name!r} too"


def _info_files(folder: UntrustedFolder, path: str) -> list[UntrustedFile]:
    if path:
        folder_given = UntrustedFolder(path)
        if folder_given.is_file:
            return [folder_given.only()]
        return [folder_given.file(n) for n in folder_given.names(3) if n.endswith(".layer_info.txt")]
    files = []
    for place in PLACES:
        if os.path.isdir(os.path.join(folder.path, place)):
            names = UntrustedFolder(os.path.join(folder.path, place)).names()
            files += [folder.file(os.path.join(place, n)) for n in names if n.endswith(".layer_info.txt")]
    return files
