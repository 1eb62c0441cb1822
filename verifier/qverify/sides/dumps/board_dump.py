"""Reads a dump of run.sh or `qvrt infer --digests`, a folder or a tar, as the board side (BUNDLE.md)."""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import tempfile
import zlib
from collections import Counter
from contextlib import closing
from typing import IO, Protocol

from qverify_agents.printable import one_line

from qverify.errors import BadFileError
from qverify.files import read_regular
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec
from qverify.tensors.spool import Spool

DUMP = "qverify.dump/1"
MAX_TEXT_BYTES, MAX_FILES = 1 << 24, 200_000
_FILE = re.compile(r"(node_\d+(?:\.\d+)?|model_infer_output_\d+)_.*\.bin")
_LINE = re.compile(r"([0-9a-f]{16}) (.+) \d+")


class DumpFiles(Protocol):
    """The files of a dump. read() returns at most the first `limit` bytes of a file."""

    def names(self) -> list[str]: ...
    def read(self, name: str, limit: int) -> bytes: ...
    def close(self) -> None: ...


class DumpFolder:
    """The files of a dump in a folder."""

    def __init__(self, path: str):
        self._path = path

    def names(self) -> list[str]:
        files = os.listdir(self._path)
        if len(files) > MAX_FILES:
            raise BadFileError(f"{self._path}: {len(files)} files; a dump has at most {MAX_FILES}")
        return files

    def read(self, name: str, limit: int) -> bytes:
        path = os.path.join(self._path, name)
        return read_regular(path, limit)

    def close(self) -> None:
        pass


class DumpTar:
    """The files of a dump in a tar. Members are read in place and never unpacked to disk; a gzipped tar is decompressed
    to an unnamed file of at most max_bytes."""

    def __init__(self, path: str, max_bytes: int):
        self._file: IO[bytes] | None = None
        try:
            self._file = _open_tar(path, max_bytes)
            self._tar = tarfile.open(fileobj=self._file, mode="r:")  # noqa: SIM115 (closed by close)
            self._members: dict[str, tarfile.TarInfo] = {}
            for member in self._members_of_tar():
                name = os.path.basename(member.name)
                if member.isreg() and name in self._members:
                    raise ValueError(f"it contains {name!r} twice; wanted one dump")
                self._members |= {name: member} if member.isreg() else {}
        except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, RecursionError, MemoryError) as error:
            self.close()
            raise BadFileError(f"{path}: neither a folder nor a tar that can be read: {error}") from error

    def _members_of_tar(self) -> list[tarfile.TarInfo]:
        members = []
        for member in self._tar:
            members.append(member)
            if len(members) > MAX_FILES:
                raise ValueError(f"more than {MAX_FILES} members")
        return members

    def names(self) -> list[str]:
        return list(self._members)

    def read(self, name: str, limit: int) -> bytes:
        file = self._tar.extractfile(self._members[name])
        assert file is not None
        return file.read(limit)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _open_tar(path: str, max_bytes: int) -> IO[bytes]:
    """Opens the tar. A gzipped one is first decompressed to an unnamed file."""
    with open(path, "rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return open(path, "rb")
    out = tempfile.TemporaryFile(prefix="qverify-")  # noqa: SIM115 (closed by Tar)
    try:
        with gzip.open(path) as packed:
            while block := packed.read(1 << 20):
                if out.tell() + len(block) > max_bytes:
                    raise ValueError(f"it contains more than the {max_bytes} bytes that a dump of this model has")
                out.write(block)
        out.seek(0)
        return out
    except BaseException:
        out.close()
        raise


def open_dump(path: str, graph: Graph) -> DumpFiles:
    """Opens a folder or a tar, plain or gzipped. Raises BadFileError for anything else."""
    if os.path.isdir(path):
        inner = os.path.join(path, "dump")
        has_dump = [os.path.isfile(os.path.join(p, "about.txt")) for p in (path, inner)]
        if all(has_dump):
            raise BadFileError(f"{path}: contains a dump, and another one in dump/; name one of them")
        return DumpFolder(inner if has_dump[1] else path)
    if not os.path.isfile(path):
        raise BadFileError(f"{path}: no such folder or tar")
    tensors = sum(graph.spec(n).size_bytes + 2048 for n in graph.tensors if n not in graph.constants)
    return DumpTar(path, 2 * tensors + 4 * MAX_TEXT_BYTES)


def read_board_dump(path: str, graph: Graph, model_sha256: str, prepared: PreparedInputs | None = None) -> Recording:
    """Returns the board's Recording. Every tensor is read once; a tensor that does not match the digest that the board
    printed is missing, with the reason. prepared: inputs that the board must have run on, or None to accept any. The
    state is "did not run" for a dump of another model or other inputs, or one that contradicts itself or the model."""
    specs = {n: graph.spec(n) for n in graph.observable()}
    recording = Recording("board", "qvrt", host=os.path.basename(path.rstrip("/")), specs=specs, finals=graph.outputs)
    recording.capabilities = frozenset({"finals", "per_node", "digests"})
    recording.model_sha256, recording.settings["carried"] = model_sha256, recording.host
    with closing(open_dump(path, graph)) as files:
        names = set(files.names())
        recording.why = _check_about(files, names, model_sha256, prepared, recording) or _find_contradiction(
            files, names, graph
        )
        if recording.why:
            recording.state = "did not run"
            recording.missing = dict.fromkeys(specs, recording.why)
        else:
            _read_tensors(files, names, graph, recording)
    return recording


def _read_tensors(files: DumpFiles, names: set[str], graph: Graph, recording: Recording) -> None:
    """Adds the digests, and every tensor whose file matches its digest, to the recording; the others are missing."""
    printed, by_label, writes_files = (
        dict(printed_digests(files)),
        _by_label(names),
        recording.settings.get("digests_only") == "0",
    )
    recording.digests = {n: d for n, d in printed.items() if n in recording.specs}
    tensors: dict[str, Array] = {}
    with closing(Spool()) as spool:
        for name, (label, *others) in file_labels(graph).items():
            why = "not printed by the board" if name in recording.specs and name not in printed else ""
            file = by_label.get(label)
            if file is None and writes_files and not why:
                why = "its file is not in the dump, though the board wrote one"
            if not why and file is not None:
                try:
                    tensors[name] = spool.keep(_tensor(files, file, graph.spec(name), printed.get(name)))
                    for other in (by_label[o] for o in others if o in by_label):
                        _tensor(files, other, graph.spec(name), printed.get(name))
                except (ValueError, OSError, BadFileError, tarfile.TarError) as error:
                    why = str(error)
            if why:
                recording.missing[name] = f"{file or label}: {why}"
                recording.digests.pop(name, None)
    recording.tensors = tensors
    without_file = [n for n in graph.outputs if n not in tensors and n not in recording.missing]
    recording.missing |= dict.fromkeys(without_file, "no file of it in the dump")
    if recording.missing:
        recording.state, recording.why = (
            "partial",
            f"{count(len(recording.missing), 'tensor', 'is', 'are')} not in the dump",
        )


def _check_about(
    files: DumpFiles, names: set[str], model_sha256: str, prepared: PreparedInputs | None, recording: Recording
) -> str:
    """Returns why the dump is not of this model and these inputs, or "" if it is. Adds its facts to the recording."""
    if "about.txt" not in names or "digests.txt" not in names:
        return "the dump is not complete: run.sh did not finish (no about.txt or digests.txt)"
    lines = files.read("about.txt", 1 << 16).decode(errors="replace").splitlines()
    if lines[:1] != [DUMP]:
        return f"about.txt is not that of a {DUMP}"
    pairs = [one_line(line).partition("=")[::2] for line in lines[1:]]
    counts = Counter(key for key, _ in pairs if key != "input")
    if repeated := [key for key, times in counts.items() if times > 1]:
        return f"about.txt says {repeated[0][:40]!r} twice"
    facts = dict(pairs)
    recording.version = facts.get("runtime", "").removeprefix("qvrt ")[:40]
    recording.settings |= {k: facts[k][:120] for k in ("machine", "kernel", "digests_only") if k in facts}
    if facts.get("model") != model_sha256:
        return "the dump is of another model"
    inputs = [line.partition("=")[2] for line in lines if line.startswith("input=")]
    recording.settings["inputs"] = inputs
    if prepared is not None and inputs != [item.sha256 for item in prepared.inputs]:
        return "the board ran on other inputs"
    return ""


def printed_digests(files: DumpFiles) -> list[tuple[str, str]]:
    """Returns tensor and digest of each line in digests.txt."""
    text = files.read("digests.txt", MAX_TEXT_BYTES).decode(errors="replace")
    matches = (_LINE.fullmatch(line) for line in text.splitlines())
    return [(match[2], match[1]) for match in matches if match is not None]


def find_contradicting_digests(files: DumpFiles, graph: Graph) -> str:
    """Returns why digests.txt cannot be of one run of this model (a tensor twice, or an unknown tensor), or "" if it
    can."""
    digests: dict[str, str] = {}
    observable = set(graph.observable())
    for tensor, digest in printed_digests(files):
        if tensor not in observable:
            return f"digests.txt has {tensor[:60]!r}, which is not a compared tensor of this model"
        if tensor in digests:
            return f"digests.txt has {tensor[:60]!r} twice, {digests[tensor]} and {digest}"
        digests[tensor] = digest
    return ""


def _find_contradiction(files: DumpFiles, names: set[str], graph: Graph) -> str:
    """Returns why the dump cannot be of one run of this model (a tensor twice, an unknown tensor, or a file of no
    tensor), or "" if it can."""
    if why := find_contradicting_digests(files, graph):
        return why
    labels = {*_node_labels(graph).values(), *_output_labels(graph)}
    file_by_label: dict[str, str] = {}
    for name in sorted(names):
        if (match := _FILE.fullmatch(name)) is None:
            continue
        if match[1] not in labels:
            return f"{name[:80]!r} belongs to no compared tensor of this model"
        if match[1] in file_by_label:
            return f"{file_by_label[match[1]][:80]!r} and {name[:80]!r} are two files of one tensor"
        file_by_label[match[1]] = name
    return ""


def _output_labels(graph: Graph) -> list[str]:
    return [f"model_infer_output_{i}" for i in range(len(graph.outputs))]


def _node_labels(graph: Graph) -> dict[str, str]:
    """Returns, by tensor, the prefix of the file that `qvrt infer` writes for it as a node's output."""
    labels = {}
    for node_index, node in enumerate(graph.nodes):
        for output_index, name in enumerate(node.outputs):
            if not graph.spec(name).interior:
                labels[name] = f"node_{node_index}.{output_index}" if len(node.outputs) > 1 else f"node_{node_index}"
    return labels


def file_labels(graph: Graph) -> dict[str, list[str]]:
    """Returns, by tensor, the prefixes of its files: first as a final output, then as a node's output."""
    labels = {name: [label] for name, label in zip(graph.outputs, _output_labels(graph), strict=True)}
    for name, label in _node_labels(graph).items():
        labels.setdefault(name, []).append(label)
    return labels


def _by_label(names: set[str]) -> dict[str, str]:
    """Returns the files by prefix."""
    return {match[1]: name for name in names if (match := _FILE.fullmatch(name)) is not None}


def _tensor(files: DumpFiles, name: str, spec: TensorSpec, digest: str | None) -> Array:
    """Returns the valid elements of a tensor. Raises ValueError if the file has another size, or the printed digest
    differs."""
    value = spec.valid_view(files.read(name, spec.size_bytes + 1))
    if digest is not None and tensor_digest(value) != digest:
        raise ValueError("its bytes do not match the digest that the board printed")
    return value
