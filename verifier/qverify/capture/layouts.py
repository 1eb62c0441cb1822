"""What the tensors of a capture are, held against its model: the model says, and the capture may not say otherwise (CAPTURE.md)."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from qverify.capture.reader import MOST_MODEL, Capture, open_capture
from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import decode
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec


def captured_graph(capture: Capture) -> Graph:
    """Of its model.bin. BadFileError where it holds none, or one that is not what was captured."""
    for file, row in capture.models.items():
        if row["kind"] == "model.bin":
            return decode(read_regular(capture.model_path(file), MOST_MODEL))
    raise BadFileError(f"{capture.folder}: the capture holds no model.bin, which says what its tensors are")


def check_layouts(capture: Capture, side: Recording, graph: Graph) -> None:
    """BadFileError where the capture says of a tensor what the graph does not."""
    for name, spec in side.specs.items():
        known = graph.tensors.get(name)
        if known is not None and _stored(spec) != _stored(known):
            raise BadFileError(
                f"{capture.folder}: what it says of tensor {name!r} contradicts the model; the capture was changed"
            )


def side_of(folder: str, side: str, frame: int, role: str) -> Recording:
    """One side of one frame as a dump. side: its label, "" for the board, or the only one. UsageError names what is there."""
    capture = open_capture(folder)
    if not 0 <= frame < len(capture.frames):
        raise UsageError(f"{folder}: no frame {frame}; it has {len(capture.frames)}")
    held = capture.recordings(frame)
    label = side or ("board" if "board" in held else next(iter(held)) if len(held) == 1 else "")
    if label not in held:
        raise UsageError(f"{folder}: no side {label!r}; give --side {' or '.join(held)}")
    found = held[label]
    graph = captured_graph(capture)
    check_layouts(capture, found, graph)
    found.side, found.engine = role, f"capture {os.path.basename(os.path.normpath(folder))} {label}"
    found.settings["incomplete"] = capture.incomplete
    unstable = (capture.frames[frame].get("repeat") or {}).get("unstable")
    if unstable and label == "board":
        found.settings["unsteady"] = "the board of this capture was not the same from run to run"
    found.settings["models"] = sorted(m["sha256"] for m in capture.models.values() if m["kind"] != "float.onnx")
    found.settings["outputs"] = list(found.finals if graph is None else graph.outputs)
    found.settings["inputs"] = [str(row["sha256"]) for row in capture.frames[frame]["inputs"]]
    found.settings["part"] = [f"frame {frame} of {len(capture.frames)}"] if len(capture.frames) > 1 else []
    if "per_node" not in found.capabilities:
        found.settings["part"] += [f"final outputs only: the {label} of a capture offered no more"]
    found.capabilities |= {"per_node"}
    return found


def _stored(spec: TensorSpec) -> TensorSpec:
    """As model.bin holds it."""
    return replace(spec, scale=tuple(float(np.float32(s)) for s in spec.scale))
