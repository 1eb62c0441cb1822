"""Composes the command that quantizes the float model again as triage recommends."""

from __future__ import annotations

import shlex

from qverify.session.triage.float_stages import FloatStage
from qverify.session.triage.triage_request import TriageRequest


def quantize_command(stage: FloatStage, tensors: list[str], request: TriageRequest) -> str:
    """Returns the command that quantizes these tensors to 16 bits; "" if the float file has none of them. stage: the
    stage of the float ONNX."""
    if stage.file is None:
        return ""
    makers = {o: node.name or node.output[0] for node in stage.file.model.graph.node for o in node.output}
    nodes = list(dict.fromkeys(makers[t] for t in tensors if t in makers))
    if not nodes:
        return ""
    files = request.inputs.files
    inputs = files if isinstance(files, str) and files else "PICTURES"
    words = ["qverify", "quantize", stage.path, "-i", inputs, *request.inputs.words]
    return shlex.join([*words, "-o", "quant16.onnx", "--int16", ",".join(nodes)])
