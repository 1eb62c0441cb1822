"""Opens a dump on disk: by the profile that was named, else by what its content is."""

from __future__ import annotations

import os

from qverify import profiles
from qverify.capture.layouts import read_side
from qverify.capture.reader import is_capture
from qverify.errors import BadFileError, UsageError
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.sides.dumps.array_dump import describes_itself, find_arrays, open_array_dump
from qverify.sides.dumps.board_dump import read_board_dump
from qverify.sides.dumps.qvrt_dump import is_qvrt_dump, read_qvrt_dump
from qverify.sides.dumps.raw_dump import is_raw_dump, read_raw_dump
from qverify.tensors.recording import Recording
from qverify.vendor_files.untrusted_files import UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump

_WANTED = (
    "wanted a folder of .npy files, an .npz, a capture, with -m model.bin a dump of run.sh or qvrt infer, "
    "with --dtype or -m a folder of raw .bin files, or a vendor's dump: "
    "say which with --profile NAME ({names})"
)


def open_dump(
    path: str, profile: str, asked: ReadingOptions, graph: Graph | None, model_sha256: str
) -> Recording | VendorDump:
    """Returns the dump at `path`. profile: "" to recognise the format by its content. graph: of -m, and the hash of its
    model.bin. Raises UsageError where two formats are possible, BadFileError for a dump that cannot be read."""
    if not profile and is_capture(path):
        return read_side(path, asked.side, asked.frame, "dump")
    if not profile and graph is not None and (raw := _raw(path)):
        return read_board_dump(raw, graph, model_sha256)
    if not profile and graph is not None and is_qvrt_dump(path):
        return read_qvrt_dump(path, graph)
    plain = path.endswith(".npz") or (os.path.isdir(path) and bool(find_arrays(path)))
    name = profile or profiles.recognised(path)
    if name == "generic" and not profile and describes_itself(path):
        name = ""  # the manifest of qverify infer says more than its dump.json
    if plain and name and not profile and not getattr(profiles.page(name), "ARRAYS", False):
        raise UsageError(f"{path}: .npy files beside a dump of {name}; --profile {name} reads the latter")
    if name:
        page = profiles.page(name)
        dump = page.read(UntrustedFolder(path), asked)
        if not dump.tensors and not dump.missing:
            raise BadFileError(f"{path}: no tensor in it; profile {name} wants {page.WANTED}")
        dump.notes += [f"{name}: {page.CHECKED} (verifier/PROFILES.md of a clone)"] if page.CHECKED else []
        return dump
    if plain or os.path.lexists(os.path.join(path, "manifest.json")):
        return open_array_dump(path, "dump") if graph is None else add_scales(open_array_dump(path, "dump"), graph)
    if graph is not None and os.path.isfile(path):
        return read_board_dump(path, graph, model_sha256)
    if (graph is not None or asked.dtypes) and is_raw_dump(path):
        return read_raw_dump(path, asked, graph)
    raise BadFileError(f"{path}: {_content(path)}; {_WANTED.format(names=', '.join(profiles.names()))}")


def _content(path: str) -> str:
    """Returns a short description of what is at the path."""
    if not os.path.isdir(path):
        return f"a file of {os.path.getsize(path)} bytes in no known format"
    names = sorted(os.listdir(path))
    return (
        f"{count(len(names), 'file')} ({', '.join(names[:3])}{' ...' if len(names) > 3 else ''})"
        if names
        else "an empty folder"
    )


def add_scales(recording: Recording, graph: Graph) -> Recording:
    """Gives arrays of a model tensor's name, dtype and shape its scale too, so that stored and real values are told
    apart."""
    for name, spec in recording.specs.items():
        known = graph.tensors.get(name)
        if known is not None and (known.dtype, known.shape) == (spec.dtype, spec.shape):
            recording.specs[name] = known
    recording.capabilities |= {"per_node"}
    return recording


def _raw(path: str) -> str:
    """Returns the path where it contains run.sh's dump, else ""."""
    inside = any(os.path.isfile(os.path.join(path, *n)) for n in (("about.txt",), ("dump", "about.txt")))
    return path if inside else ""
