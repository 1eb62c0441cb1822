"""Opens a vendor's ONNX whose operators only an engine of the user can run (--reference-engine)."""

from __future__ import annotations

import hashlib
import os

from qverify.errors import UsageError
from qverify.onnx_model.opaque_model import read_opaque
from qverify.session.models import Models
from qverify.session.request import Request
from qverify.sides.engine_process import choose_engine
from qverify.sides.engine_reference import EngineReference

NO_INTEGER_GRAPH = "gives no integer graph: no simulator, and no node is recomputed"


def open_engine_models(request: Request, path: str) -> Models:
    """Returns the models of an ONNX that the request's reference engine runs: a graph that only names the tensors, and
    the engine as the reference. Raises UsageError for options that need an integer graph, BadFileError if the file
    cannot be read."""
    if request.reference_spread or request.capture is not None or request.paranoid:
        option = "--reference-spread" if request.reference_spread else "--capture" if request.capture else "--paranoid"
        raise UsageError(f"{option} needs an integer graph, which --reference-engine does not give; leave one out")
    choice = choose_engine(request.reference_engine, request.reference_python, request.reference_timeout_s)
    model = read_opaque(path, request.shapes)
    reference = EngineReference(choice, model)
    row = {"path": os.path.basename(path), "sha256": hashlib.sha256(model.data).hexdigest(), "kind": "quant.onnx"}
    caveats = [f"the reference is {choice.shown}, which {NO_INTEGER_GRAPH}"]
    observable = len(reference.graph.observable())
    total = sum(len(node.outputs) for node in model.nodes)
    notes = [f"the reference engine gives {observable} of {total} tensors of nodes, by value only"]
    return Models(reference.graph, b"", None, model.data, [row], notes, caveats, engine=reference)
