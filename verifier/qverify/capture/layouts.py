"""Checks the layouts of tensors that a capture states against its model; if they differ, the capture is rejected
(CAPTURE.md). Reads one side of a capture as a dump."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from qverify.capture.reader import Capture, open_capture
from qverify.capture.rows import MAX_MODEL_BYTES
from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular
from qverify.model_bin.graph import Graph
from qverify.model_bin.islands import describe_islands
from qverify.model_bin.records import decode
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec


def captured_graph(capture: Capture) -> Graph:
    """Returns the graph of the capture's model.bin. Raises BadFileError if there is none, or it was changed since the
    run."""
    for file, row in capture.models.items():
        if row["kind"] == "model.bin":
            return decode(read_regular(capture.model_path(file), MAX_MODEL_BYTES))
    raise BadFileError(f"{capture.folder}: the capture contains no model.bin, which describes its tensors")


def check_layouts(capture: Capture, side: Recording, graph: Graph, apart: Collection[str] = ()) -> None:
    """Raises BadFileError if the capture states another layout for a tensor of a side than the graph. apart: tensors that
    a runner gave in another form."""
    for name, spec in side.specs.items():
        known = graph.tensors.get(name) if name not in apart else None
        if known is not None and _stored(spec) != _stored(known):
            raise BadFileError(
                f"{capture.folder}: its description of tensor {name!r} contradicts the model; the capture was changed"
            )


def read_side(folder: str, side: str, frame: int, role: str) -> Recording:
    """Returns one side of one frame of a capture as a dump. side: its label; "" for the board, or for the only side.
    role: the side that the dump takes the place of. Raises UsageError if there is no such frame or side."""
    capture = open_capture(folder)
    if not 0 <= frame < len(capture.frames):
        raise UsageError(f"{folder}: no frame {frame}; it has {len(capture.frames)}")
    recordings = capture.recordings(frame)
    label = side or ("board" if "board" in recordings else next(iter(recordings)) if len(recordings) == 1 else "")
    if label not in recordings:
        raise UsageError(f"{folder}: no side {label!r}; give --side {' or '.join(recordings)}")
    recording = recordings[label]
    graph = captured_graph(capture)
    check_layouts(capture, recording, graph)
    recording.side, recording.engine = role, f"capture {os.path.basename(os.path.normpath(folder))} {label}"
    recording.settings["incomplete"] = capture.incomplete
    unstable = (capture.frames[frame].get("repeat") or {}).get("unstable")
    if unstable and label == "board":
        recording.settings["unsteady"] = "the board of this capture gave different results from run to run"
    recording.settings["models"] = sorted(m["sha256"] for m in capture.models.values() if m["kind"] != "float.onnx")
    recording.settings["outputs"] = list(recording.finals if graph is None else graph.outputs)
    recording.settings["inputs"] = [str(row["sha256"]) for row in capture.frames[frame]["inputs"]]
    recording.settings["part"] = [f"frame {frame} of {len(capture.frames)}"] if len(capture.frames) > 1 else []
    recording.settings["part"] += [describe_islands(graph.islands)] if graph.islands else []
    if "per_node" not in recording.capabilities:
        recording.settings["part"] += [f"final outputs only: the {label} of a capture offered no other tensors"]
    recording.capabilities |= {"per_node"}
    return recording


def _stored(spec: TensorSpec) -> TensorSpec:
    """Returns the spec with its scales rounded to float32, as model.bin stores them."""
    return replace(spec, scale=tuple(float(np.float32(s)) for s in spec.scale))
