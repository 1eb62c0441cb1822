"""Opens a vendor's ONNX whose operators only an engine of the user can run (--reference-engine)."""

from __future__ import annotations

import hashlib
import os

from qverify.onnx_model.opaque_model import read_opaque
from qverify.session.models import Models
from qverify.sides.engine_process import EngineChoice
from qverify.sides.engine_reference import EngineReference

NO_INTEGER_GRAPH = "gives no integer graph: no simulator, and no node is recomputed"


def open_engine_models(choice: EngineChoice, path: str, shapes: dict[str, tuple[int, ...]]) -> Models:
    """Returns the models of an ONNX that a reference engine runs: a graph that only names the tensors, and the engine as the
    reference. shapes: of dynamic inputs. Raises BadFileError if the file cannot be read."""
    model = read_opaque(path, shapes)
    reference = EngineReference(choice, model)
    row = {"path": os.path.basename(path), "sha256": hashlib.sha256(model.data).hexdigest(), "kind": "quant.onnx"}
    caveats = [f"the reference is {choice.shown}, which {NO_INTEGER_GRAPH}"]
    observable = len(reference.graph.observable())
    total = sum(len(node.outputs) for node in model.nodes)
    notes = [f"the reference engine gives {observable} of {total} tensors of nodes, by value only"]
    return Models(reference.graph, b"", None, model.data, [row], notes, caveats, engine=reference)
