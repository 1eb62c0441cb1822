"""The application's rungs at the ends of the ladder: the bytes it fed, and the outputs it read."""

from __future__ import annotations

from dataclasses import replace

from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.report.triage_document import Rung, Stage
from qverify.session.host_sides import SideResults
from qverify.session.triage.device_rungs import dump_as_side
from qverify.tensors.prepared import PreparedInputs
from qverify.triage.ladder import OutputComparison, RungGate, default_gate


def input_rung(graph: Graph, prepared: PreparedInputs, request: InputRequest, path: str) -> Rung:
    """Returns the rung that compares the raw bytes the application fed (a file at `path`) with those prepared from
    -i."""
    got = prepared_inputs(graph, replace(request, files=path))
    differ = [a.spec.name for a, b in zip(prepared.inputs, got.inputs, strict=True) if a.data != b.data]
    why = f"{', '.join(differ)}: the bytes differ from those prepared from -i" if differ else ""
    return Rung(
        "inputs",
        "application's inputs",
        "equal bytes",
        "FAILED" if differ else "PASSED",
        "differ" if differ else "",
        why,
    )


def output_rung(graph: Graph, ran: SideResults, device: Stage, path: str, gate: RungGate | None) -> Rung:
    """Returns the rung that compares the arrays at `path`, named after the outputs, with the outputs of the stage
    before. Raises UsageError where the file contains none of them, or there is no stage to compare with."""
    own, theirs = ran.recordings.get(device.name), dump_as_side(path, graph)
    if own is None:
        raise UsageError(
            "--app-output: there is no side to compare it with; give a quantized ONNX, model.bin or -b BOARD"
        )
    wanted = [n for n in graph.network_outputs() if n in theirs.tensors]
    if not wanted:
        raise UsageError(
            f"--app-output {path}: contains none of the outputs {list(graph.network_outputs())}; its arrays must be named after them"
        )
    outputs = OutputComparison(
        device.name,
        "application",
        gate or default_gate(device.kind, "application"),
        {n: n for n in graph.network_outputs()},
    )
    outputs.add(
        {n: (own.tensors[n], graph.spec(n)) for n in graph.network_outputs() if n in own.tensors},
        {n: (theirs.tensors[n], theirs.specs[n]) for n in wanted},
    )
    return outputs.rung()
