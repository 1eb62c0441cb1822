"""Makes the rungs of the user's application at the ends of the ladder: the input bytes that it fed to the board, and
the outputs that it read."""

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


def make_input_rung(graph: Graph, prepared: PreparedInputs, request: InputRequest, path: str) -> Rung:
    """Returns the rung that compares the input bytes of the application (a file at `path`) with those prepared from
    -i."""
    application = prepared_inputs(graph, replace(request, files=path))
    differ = [a.spec.name for a, b in zip(prepared.inputs, application.inputs, strict=True) if a.data != b.data]
    why = f"{', '.join(differ)}: the bytes differ from those prepared from -i" if differ else ""
    return Rung(
        "inputs",
        "application's inputs",
        "equal bytes",
        "FAILED" if differ else "PASSED",
        "differ" if differ else "",
        why,
    )


def make_output_rung(graph: Graph, ran: SideResults, device: Stage, path: str, gate: RungGate | None) -> Rung:
    """Returns the rung that compares the arrays at `path`, which are named after the outputs, with the outputs of the
    stage `device`. Raises UsageError if the file contains none of the outputs, or that stage did not run."""
    device_side, application = ran.recordings.get(device.name), dump_as_side(path, graph)
    if device_side is None:
        raise UsageError(
            "--app-output: there is no side to compare it with; give a quantized ONNX, model.bin or -b BOARD"
        )
    present = [n for n in graph.network_outputs() if n in application.tensors]
    if not present:
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
        {n: (device_side.tensors[n], graph.spec(n)) for n in graph.network_outputs() if n in device_side.tensors},
        {n: (application.tensors[n], application.specs[n]) for n in present},
    )
    return outputs.rung()
