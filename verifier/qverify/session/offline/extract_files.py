"""A capture's bytes as files: what every side had, in the aligned layout of model.bin, with what each file is (dump.json)."""

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
from qverify.tensors.spec import TensorSpec

CUT = "(what came after)"  # stands in dump.json for all that an incomplete capture may lack
LAYOUTS = ("NCHW", "NHWC", "NCW", "NWC", "NC")  # as profile generic reads them


@dataclass(frozen=True, slots=True)
class ExtractRequest:
    """frame, side, tensors: None and empty for all. side: a label of the capture, or `inputs`."""

    capture: str
    folder: str
    frame: int | None = None
    side: str = ""
    tensors: tuple[str, ...] = ()


@dataclass(slots=True)
class Extracted:
    files: int = 0
    bytes: int = 0
    missing: int = 0
    names: set[str] = field(default_factory=set)


def extract(asked: ExtractRequest) -> Extracted:
    """FOLDER/frame_N/SIDE/NNNN.bin and dump.json, which profile generic reads; the folder is whole or not there. What the
    capture lacks is listed in dump.json. UsageError where nothing fits, or the folder is there or cannot be written."""
    capture = open_capture(asked.capture)
    if os.path.lexists(asked.folder):
        raise UsageError(f"{asked.folder}: it is there already; name a folder that is not")
    found, part = Extracted(), ""
    try:
        part = tempfile.mkdtemp(prefix=".qverify-", dir=os.path.dirname(os.path.abspath(asked.folder)))
        os.chmod(part, 0o755)
        for number in _frames(capture, asked.frame):
            for label, tensors, missing in _sides(capture, number, asked.side):
                if capture.incomplete:
                    missing |= {CUT: f"the capture is incomplete: {capture.incomplete}"}
                _written(os.path.join(part, f"frame_{number}", label), tensors, missing, asked.tensors, found)
        if unknown := [n for n in asked.tensors if n not in found.names]:
            raise UsageError(f"{asked.capture}: --tensor {unknown[0]}: no tensor of that name; {_there(capture)}")
        if not found.files and not found.missing:
            raise UsageError(f"{asked.capture}: nothing of what was asked is there; {_there(capture)}")
        os.rename(part, asked.folder)
    except OSError as error:
        raise UsageError(f"{asked.folder}: cannot be written: {error.strerror or error}") from error
    finally:
        if part:
            shutil.rmtree(part, ignore_errors=True)
    return found


def _frames(capture: Capture, one: int | None) -> Iterable[int]:
    if one is not None and not 0 <= one < len(capture.frames):
        raise UsageError(f"{capture.folder}: no frame {one}; it has {len(capture.frames)}")
    return range(len(capture.frames)) if one is None else [one]


def _sides(
    capture: Capture, number: int, wanted: str
) -> Iterable[tuple[str, Iterable[tuple[TensorSpec, bytes]], dict[str, str]]]:
    """Label, tensors with their aligned bytes, missing ones with the reason."""
    if wanted in ("", "inputs"):
        yield "inputs", *_inputs(capture, number)
    for label, recording in capture.recordings(number).items():
        if wanted in ("", label):
            held = ((spec, name) for name, spec in recording.specs.items() if name in recording.tensors)
            stored = ((spec, spec.aligned_bytes(recording.tensors[name])) for spec, name in held)
            lacking = {n: recording.missing.get(n, "only its digest was kept") for n in recording.specs}
            yield label, stored, {n: why for n, why in lacking.items() if n not in recording.tensors}


def _inputs(capture: Capture, number: int) -> tuple[list[tuple[TensorSpec, bytes]], dict[str, str]]:
    """As the board was fed them."""
    found, missing = list[tuple[TensorSpec, bytes]](), dict[str, str]()
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
        found.append((spec if spec is not None and fits else TensorSpec(name, "uint8", (len(data),)), data))
    return found, missing


def _written(
    folder: str,
    tensors: Iterable[tuple[TensorSpec, bytes]],
    missing: dict[str, str],
    wanted: Collection[str],
    found: Extracted,
) -> None:
    os.makedirs(folder)
    rows = list[dict[str, Any]]()
    for spec, data in tensors:
        found.names.add(spec.name)
        if wanted and spec.name not in wanted:
            continue
        name = f"{len(rows):04d}.bin"
        with writing(os.path.join(folder, name)), open(os.path.join(folder, name), "wb") as file:
            file.write(data)
        rows.append(_row(spec, name))
        found.files, found.bytes = found.files + 1, found.bytes + len(data)
    lacking = {n: why for n, why in missing.items() if not wanted or n in wanted}
    found.names |= missing.keys()
    found.missing += len(lacking)
    place = os.path.join(folder, "dump.json")
    with writing(place), open(place, "w", encoding="utf-8") as listing:
        json.dump({"tensor": rows, "missing": lacking}, listing, indent=1)


def _row(spec: TensorSpec, file: str) -> dict[str, Any]:
    """An entry of dump.json (PROFILES.md, generic)."""
    row: dict[str, Any] = {"name": spec.name, "file": file, "dtype": spec.dtype, "shape": list(spec.shape)}
    row |= {"aligned_shape": list(spec.aligned_shape)} if spec.aligned_shape != spec.shape else {}
    row |= {"layout": spec.layout} if spec.layout in LAYOUTS else {}
    if spec.quantized:
        row |= {"scale": [float(s) for s in spec.scale], "zero_point": [int(z) for z in spec.zero_point]}
        row |= {"channel_axis": spec.channel_axis} if len(spec.scale) > 1 else {}
    return row


def _there(capture: Capture) -> str:
    labels = dict.fromkeys(str(side["label"]) for row in capture.frames for side in row["sides"])
    return f"it has {len(capture.frames)} frames with the sides inputs, {', '.join(labels)}"
