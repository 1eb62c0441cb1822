"""Reads a folder that `qvrt infer --dump_intermediate` wrote by itself, without run.sh (BUNDLE.md)."""

from __future__ import annotations

import os
import re
from contextlib import closing

from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.sides.dumps.board_dump import DumpFolder, file_labels, find_contradicting_digests, printed_digests
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec
from qverify.tensors.spool import Spool
from qverify.vendor_files.untrusted_files import UntrustedFolder

MAX_NAME_BYTES = 180  # of a tensor's name in a file name
_NODE = re.compile(r"node_\d+(\.\d+)?_.*\.bin", re.DOTALL)
_DUMPED = re.compile(r"(node_\d+(\.\d+)?|model_infer_output_\d+)_.*\.bin", re.DOTALL)


def is_qvrt_dump(path: str) -> bool:
    """Returns True if the folder has files of nodes with the names that qvrt gives them, and no file that run.sh
    adds."""
    if not os.path.isdir(path):
        return False
    names = UntrustedFolder(path).names()
    return "about.txt" not in names and any(_NODE.fullmatch(name) for name in names)


def read_qvrt_dump(path: str, graph: Graph) -> Recording:
    """Returns the dump as a side. A tensor is missing, with the reason, if it has no file, another size, or another
    digest than in digests.txt. The state is "did not run" for a dump that cannot be of one run of this model: a file
    belongs to no tensor, or some files have padding and others have none."""
    specs = {n: graph.spec(n) for n in graph.observable()}
    side = Recording("board", "qvrt infer", host=os.path.basename(path.rstrip("/")), specs=specs, finals=graph.outputs)
    side.capabilities = frozenset({"finals", "per_node"})
    files = DumpFolder(path)
    names = set(files.names())
    expected = {name: _file_names(name, labels) for name, labels in file_labels(graph).items()}
    expected_files = {file for file_names in expected.values() for file in file_names}
    stray = sorted(n for n in names if _DUMPED.fullmatch(n) and n not in expected_files)
    why = f"{stray[0][:80]!r} belongs to no compared tensor of this model" if stray else ""
    if not why and "digests.txt" in names:
        why = find_contradicting_digests(files, graph)
    if why:
        side.state, side.why = "did not run", why
        side.missing = dict.fromkeys(specs, side.why)
        return side
    _read_tensors(files, {name: [f for f in file_names if f in names] for name, file_names in expected.items()}, side)
    side.notes = [f"{path}: the dump of qvrt infer does not state model and inputs; names and sizes fit the model"]
    if texts := sum(n.endswith(".txt") and n != "digests.txt" for n in names):
        side.notes.append(
            f"{path}: {count(texts, 'text file', 'is', 'are')} not read: the .bin files have the same values"
        )
    return side


def _file_names(name: str, labels: list[str]) -> list[str]:
    """Returns the names that qvrt gives to the files of a tensor."""
    spelled = re.sub(rb"[^A-Za-z0-9._-]", b"_", name.encode(errors="surrogateescape")[:MAX_NAME_BYTES]).decode()
    return [f"{label}_{spelled}.bin" for label in labels]


def _read_tensors(files: DumpFolder, files_by_tensor: dict[str, list[str]], side: Recording) -> None:
    """Adds the tensors that have files to the recording, and the reasons why the others are missing."""
    digests = dict(printed_digests(files)) if "digests.txt" in files.names() else {}
    tensors: dict[str, Array] = {}
    forms: dict[bool, str] = {}
    with closing(Spool()) as spool:
        for name, paths in files_by_tensor.items():
            try:
                values = [_value(files, file, side.specs[name], forms) for file in paths]
                _check(values, digests.get(name))
                tensors[name] = spool.keep(values[0])
            except (ValueError, OSError, BadFileError) as error:
                side.missing[name] = str(error)
    side.tensors = tensors
    side.missing |= {n: "no file of it in the dump" for n in side.specs if n not in tensors and n not in side.missing}
    if len(forms) > 1:
        side.state, side.why = (
            "did not run",
            f"{forms[True]} has padding, {forms[False]} has none: two runs in one folder",
        )
        side.tensors, side.missing = {}, dict.fromkeys(side.specs, side.why)
    elif side.missing:
        side.state = "partial"
        side.why = f"{count(len(side.missing), 'tensor', 'is', 'are')} not in the dump"


def _value(files: DumpFolder, file: str, spec: TensorSpec, forms: dict[bool, str]) -> Array:
    """Returns the valid elements of a file, which is aligned or (with --remove_padding_process) dense. Adds the file to
    `forms` if it is the first one with padding (True) or without (False)."""
    data = files.read(file, spec.size_bytes + 1)
    if spec.size_bytes != spec.valid_bytes and len(data) in (spec.size_bytes, spec.valid_bytes):
        forms.setdefault(len(data) == spec.size_bytes, file)
    if len(data) == spec.valid_bytes:
        spec = TensorSpec(file, spec.dtype, spec.shape)
    elif len(data) != spec.size_bytes:
        dense = f" or, without padding, {spec.valid_bytes}" if spec.valid_bytes != spec.size_bytes else ""
        raise ValueError(f"{file}: {len(data)} bytes, wanted {spec.size_bytes}{dense}")
    return spec.valid_view(data)


def _check(values: list[Array], digest: str | None) -> None:
    """Raises ValueError if there is no file, if two files differ, or if the printed digest differs."""
    if not values:
        raise ValueError("no file of it in the dump")
    if any(value.tobytes() != values[0].tobytes() for value in values[1:]):
        raise ValueError("its files as a node's output and as an output of the model differ")
    if digest is not None and tensor_digest(values[0]) != digest:
        raise ValueError("its bytes do not match the digest that the board printed")
