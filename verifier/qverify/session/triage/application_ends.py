"""The application's own ends of the ladder: the bytes it fed, and the outputs it read."""

from __future__ import annotations

from dataclasses import replace

from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.report.triage_document import Rung, Stage
from qverify.session.host_sides import SideResults
from qverify.session.triage.device_rungs import dump_as_side
from qverify.tensors.prepared import PreparedInputs
from qverify.triage.ladder import Outputs, RungGate, default_gate


def input_rung(graph: Graph, prepared: PreparedInputs, asked: InputRequest, path: str) -> Rung:
    """path: what the application fed, raw bytes as they were, against what was prepared from -i."""
    got = prepared_inputs(graph, replace(asked, files=path))
    differ = [a.spec.name for a, b in zip(prepared.inputs, got.inputs, strict=True) if a.data != b.data]
    why = f"{', '.join(differ)}: other bytes than were prepared from -i" if differ else ""
    return Rung(
        "inputs",
        "application's inputs",
        "equal bytes",
        "FAILED" if differ else "PASSED",
        "differ" if differ else "",
        why,
    )


def output_rung(graph: Graph, ran: SideResults, device: Stage, path: str, gate: RungGate | None) -> Rung:
    """path: arrays named after the outputs, against those of the stage before. UsageError where it holds none of them."""
    own, theirs = ran.recordings.get(device.name), dump_as_side(path, graph)
    if own is None:
        raise UsageError("--app-output: there is no side to hold it to; give a quantized ONNX, model.bin or -b BOARD")
    wanted = [n for n in graph.outputs if n in theirs.tensors]
    if not wanted:
        raise UsageError(
            f"--app-output {path}: holds none of the outputs {list(graph.outputs)}; its arrays must be named after them"
        )
    found = Outputs(
        device.name, "application", gate or default_gate(device.kind, "application"), {n: n for n in graph.outputs}
    )
    found.add(
        {n: (own.tensors[n], graph.spec(n)) for n in graph.outputs if n in own.tensors},
        {n: (theirs.tensors[n], theirs.specs[n]) for n in wanted},
    )
    return found.rung()
