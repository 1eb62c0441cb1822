"""Opens a dump on disk with the given profile, or recognises its format by content."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from qverify import profiles
from qverify.errors import BadFileError, UsageError
from qverify.plural import count
from qverify.sides.dumps.array_dump import describes_itself, find_arrays, open_array_dump
from qverify.sides.dumps.run_npz import read_index, read_run_npz
from qverify.sides.dumps.unread_files import note_unread
from qverify.tensors.recording import Recording
from qverify.vendor_files.untrusted_files import UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump

if TYPE_CHECKING:
    from qverify.model_bin.graph import Graph

_WANTED = (
    "wanted a folder of .npy files, an .npz, a capture, with -m model.bin a dump of run.sh or qvrt infer, "
    "with --dtype or -m a folder of raw .bin files, or a vendor's dump: "
    "say which with --profile NAME ({names})"
)


def open_dump(
    path: str, profile: str, options: ReadingOptions, graph: Graph | None, model_sha256: str
) -> Recording | VendorDump:
    """Returns the dump at `path`. profile: name of a profile, or "" to recognise the format by content. graph,
    model_sha256: graph and hash of the model of -m, if given. Raises UsageError if two formats are possible,
    BadFileError if the dump cannot be read."""
    own = None if profile else _open_own(path, options, graph, model_sha256)
    if own is not None:
        return own
    if not profile and (index := read_index(path)) is not None:
        side = read_run_npz(path, index, options.side)
        return side if graph is None else add_scales(side, graph)
    has_arrays = path.endswith(".npz") or (os.path.isdir(path) and bool(find_arrays(path)))
    name = profile or profiles.recognised(path)
    if name == "generic" and not profile and describes_itself(path):
        name = ""  # the manifest of qverify infer contains more than its dump.json
    if has_arrays and name and not profile and not getattr(profiles.page(name), "ARRAYS", False):
        raise UsageError(f"{path}: .npy files beside a dump of {name}; --profile {name} reads the latter")
    if name:
        page = profiles.page(name)
        dump = page.read(UntrustedFolder(path), options)
        if not dump.tensors and not dump.missing:
            raise BadFileError(f"{path}: no tensor in it; profile {name} wants {page.WANTED}")
        dump.notes += [f"{name}: {page.CHECKED} (verifier/PROFILES.md of a clone)"] if page.CHECKED else []
        dump.notes += note_unread(path, dump)
        dump.layout = options.layout
        return dump
    if has_arrays or os.path.lexists(os.path.join(path, "manifest.json")):
        arrays = open_array_dump(path, "dump")
        arrays.notes += note_unread(path, None)
        return arrays if graph is None else add_scales(arrays, graph)
    raw = _open_raw(path, options, graph, model_sha256)
    if raw is not None:
        return raw
    raise BadFileError(f"{path}: {_content(path)}; {_WANTED.format(names=', '.join(profiles.names()))}")


def _open_own(path: str, options: ReadingOptions, graph: Graph | None, model_sha256: str) -> Recording | None:
    """Returns the side of a capture, or what qvrt wrote; None for anything else."""
    if os.path.isdir(path):
        from qverify.capture.reader import is_capture

        if is_capture(path):
            from qverify.capture.layouts import read_side

            return read_side(path, options.side, options.frame, "dump")
    if graph is None:
        return None
    from qverify.sides.dumps.board_dump import read_board_dump
    from qverify.sides.dumps.qvrt_dump import is_qvrt_dump, read_qvrt_dump

    if run_sh_dump := _find_run_sh_dump(path):
        return read_board_dump(run_sh_dump, graph, model_sha256)
    return read_qvrt_dump(path, graph) if is_qvrt_dump(path) else None


def _open_raw(
    path: str, options: ReadingOptions, graph: Graph | None, model_sha256: str
) -> Recording | VendorDump | None:
    """Returns what is in a packed dump of qvrt, or in raw files; None for anything else."""
    if graph is not None and os.path.isfile(path):
        from qverify.sides.dumps.board_dump import read_board_dump

        return read_board_dump(path, graph, model_sha256)
    if graph is None and not options.dtypes:
        return None
    from qverify.sides.dumps.raw_dump import is_raw_dump, read_raw_dump

    if not is_raw_dump(path):
        return None
    dump = read_raw_dump(path, options, graph)
    dump.layout = options.layout
    return dump


def _content(path: str) -> str:
    """Returns a short description of the file or folder at the path."""
    if not os.path.isdir(path):
        return f"a file of {os.path.getsize(path)} bytes in no known format"
    names = sorted(os.listdir(path))
    return (
        f"{count(len(names), 'file')} ({', '.join(names[:3])}{' ...' if len(names) > 3 else ''})"
        if names
        else "an empty folder"
    )


def add_scales(recording: Recording, graph: Graph) -> Recording:
    """Adds the scale to arrays that have name, dtype and shape of a model's tensor, so that stored values are
    distinguished from real ones."""
    for name, spec in recording.specs.items():
        model_spec = graph.tensors.get(name)
        if model_spec is not None and (model_spec.dtype, model_spec.shape) == (spec.dtype, spec.shape):
            recording.specs[name] = model_spec
    recording.capabilities |= {"per_node"}
    return recording


def _find_run_sh_dump(path: str) -> str:
    """Returns the path if it contains a dump of run.sh, else ""."""
    has_dump = any(os.path.isfile(os.path.join(path, *n)) for n in (("about.txt",), ("dump", "about.txt")))
    return path if has_dump else ""
