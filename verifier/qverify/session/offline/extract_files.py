"""Extracts the contents of a capture as files: the inputs, and every side's tensors in the aligned layout of model.bin,
described in dump.json."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from qverify.capture.reader import Capture, open_capture
from qverify.errors import BadFileError, UsageError
from qverify.files import writing
from qverify.plural import count
from qverify.tensors.spec import TensorSpec

CUT_OFF = "(what came after)"  # name in dump.json for everything that an incomplete capture may lack
LAYOUTS = ("NCHW", "NHWC", "NCW", "NWC", "NC")  # that the profile `generic` reads


@dataclass(frozen=True, slots=True)
class ExtractRequest:
    """A request to extract a capture to a folder. frame: number of a frame, None for all. side: a label of the capture
    or `inputs`, "" for all. tensors: names, () for all."""

    capture: str
    folder: str
    frame: int | None = None
    side: str = ""
    tensors: tuple[str, ...] = ()


@dataclass(slots=True)
class ExtractedFiles:
    """The result of an extraction: number of files, their bytes, number of missing tensors, and the names of all
    tensors that were looked at."""

    files: int = 0
    bytes: int = 0
    missing: int = 0
    names: set[str] = field(default_factory=set)


def extract(request: ExtractRequest) -> ExtractedFiles:
    """Writes FOLDER/frame_N/SIDE/NNNN.bin and dump.json, which the profile `generic` reads and which also lists the
    tensors that the capture lacks. The folder is written completely or not at all. Raises UsageError if nothing matches
    the request, or the folder exists or cannot be written."""
    capture = open_capture(request.capture)
    if os.path.lexists(request.folder):
        raise UsageError(f"{request.folder}: exists already; name a folder that does not")
    counts, temporary = ExtractedFiles(), ""
    try:
        temporary = tempfile.mkdtemp(prefix=".qverify-", dir=os.path.dirname(os.path.abspath(request.folder)))
        os.chmod(temporary, 0o755)
        for number in _frames(capture, request.frame):
            for label, tensors, missing in _sides(capture, number, request.side):
                if capture.incomplete:
                    missing |= {CUT_OFF: f"the capture is incomplete: {capture.incomplete}"}
                _write_side(
                    os.path.join(temporary, f"frame_{number}", label), tensors, missing, request.tensors, counts
                )
        if unknown := [n for n in request.tensors if n not in counts.names]:
            contents = _describe_contents(capture)
            raise UsageError(f"{request.capture}: --tensor {unknown[0]}: no tensor of that name; {contents}")
        if not counts.files and not counts.missing:
            contents = _describe_contents(capture)
            raise UsageError(f"{request.capture}: it contains nothing of what was asked for; {contents}")
        os.rename(temporary, request.folder)
    except OSError as error:
        raise UsageError(f"{request.folder}: cannot be written: {error.strerror or error}") from error
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)
    return counts


def _frames(capture: Capture, number: int | None) -> Iterable[int]:
    """Returns the numbers of the frames to extract. Raises UsageError if there is no frame of this number."""
    if number is not None and not 0 <= number < len(capture.frames):
        raise UsageError(f"{capture.folder}: no frame {number}; it has {len(capture.frames)}")
    return range(len(capture.frames)) if number is None else [number]


def _sides(
    capture: Capture, number: int, wanted: str
) -> Iterable[tuple[str, Iterable[tuple[TensorSpec, bytes]], dict[str, str]]]:
    """Yields label, (spec, aligned bytes) of the tensors, and the reason for each missing tensor, for the wanted side
    of a frame or for all ("")."""
    if wanted in ("", "inputs"):
        yield "inputs", *_inputs(capture, number)
    for label, recording in capture.recordings(number).items():
        if wanted in ("", label):
            present = ((spec, name) for name, spec in recording.specs.items() if name in recording.tensors)
            stored = ((spec, spec.aligned_bytes(recording.tensors[name])) for spec, name in present)
            lacking = {n: recording.missing.get(n, "only its digest was kept") for n in recording.specs}
            yield label, stored, {n: why for n, why in lacking.items() if n not in recording.tensors}


def _inputs(capture: Capture, number: int) -> tuple[list[tuple[TensorSpec, bytes]], dict[str, str]]:
    """Returns the inputs as the board received them, and the reason for each one that cannot be read."""
    tensors, missing = list[tuple[TensorSpec, bytes]](), dict[str, str]()
    for row in capture.frames[number]["inputs"]:
        name = str(row["name"])
        spec = capture.specs.get(name)
        try:
            data = capture.parts.read(row["part"] if isinstance(row["part"], int) else -1)
            if hashlib.sha256(data).hexdigest() != row["sha256"]:
                raise BadFileError(f"input {name!r} is not what was captured")
        except BadFileError as error:
            missing[name] = str(error)
            continue
        fits = spec is not None and spec.size_bytes == len(data)
        tensors.append((spec if spec is not None and fits else TensorSpec(name, "uint8", (len(data),)), data))
    return tensors, missing


def _write_side(
    folder: str,
    tensors: Iterable[tuple[TensorSpec, bytes]],
    missing: dict[str, str],
    wanted: Collection[str],
    counts: ExtractedFiles,
) -> None:
    """Writes the tensors of one side of a frame and its dump.json, and adds them to `counts`. wanted: names, empty for
    all."""
    os.makedirs(folder)
    rows = list[dict[str, Any]]()
    for spec, data in tensors:
        counts.names.add(spec.name)
        if wanted and spec.name not in wanted:
            continue
        name = f"{len(rows):04d}.bin"
        with writing(os.path.join(folder, name)), open(os.path.join(folder, name), "wb") as file:
            file.write(data)
        rows.append(_row(spec, name))
        counts.files, counts.bytes = counts.files + 1, counts.bytes + len(data)
    lacking = {n: why for n, why in missing.items() if not wanted or n in wanted}
    counts.names |= missing.keys()
    counts.missing += len(lacking)
    path = os.path.join(folder, "dump.json")
    with writing(path), open(path, "w", encoding="utf-8") as listing:
        json.dump({"tensor": rows, "missing": lacking}, listing, indent=1)


def _row(spec: TensorSpec, file: str) -> dict[str, Any]:
    """Returns an entry of dump.json (PROFILES.md, generic)."""
    row: dict[str, Any] = {"name": spec.name, "file": file, "dtype": spec.dtype, "shape": list(spec.shape)}
    row |= {"aligned_shape": list(spec.aligned_shape)} if spec.aligned_shape != spec.shape else {}
    row |= {"layout": spec.layout} if spec.layout in LAYOUTS else {}
    if spec.quantized:
        row |= {"scale": [float(s) for s in spec.scale], "zero_point": [int(z) for z in spec.zero_point]}
        row |= {"channel_axis": spec.channel_axis} if len(spec.scale) > 1 else {}
    return row


def _describe_contents(capture: Capture) -> str:
    labels = dict.fromkeys(str(side["label"]) for row in capture.frames for side in row["sides"])
    return f"it has {count(len(capture.frames), 'frame')} with the sides inputs, {', '.join(labels)}"
