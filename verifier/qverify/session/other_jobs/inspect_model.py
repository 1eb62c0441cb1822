"""Lists the contents of a model file (nodes, tensors, quantization) without running it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace

from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import QVerifyError, UsageError
from qverify.model_bin.facts import ModelFacts
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.records import decode
from qverify.onnx_model.file_summary import summarize
from qverify.onnx_model.load import parse, read_model
from qverify.session.model_file import kind_of
from qverify.session.models import open_models
from qverify.session.tflite_alone import open_tflite
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.tpu_mlir import INPUT, MAX_HEAD, MODULE, is_module, read_module


def inspect_model(path: str, shapes: dict[str, tuple[int, ...]] | None = None) -> ModelFacts:
    """Returns the contents of the model file. shapes: dims of dynamic inputs. Raises BadFileError, with the name of the
    format if it is known, for a file that is not a model, and UsageError for shapes of a .tflite."""
    data = read_model(path)
    if is_module(data[:MAX_HEAD]):
        return _inspect_module(path, data)
    kind = kind_of(path, data)
    identity = path, kind, len(data), hashlib.sha256(data).hexdigest()
    if kind == "model.bin":
        graph = decode(data)
        return ModelFacts(*identity, _specs(graph, graph.inputs), _specs(graph, graph.network_outputs()), graph=graph)
    if kind == "tflite":
        if shapes:
            raise UsageError(f"--shape is for a dynamic ONNX; the shapes of {path} are fixed")
        graph = open_tflite(path, data, host=True)[0].graph
        return ModelFacts(*identity, _specs(graph, graph.inputs), _specs(graph, graph.network_outputs()), graph=graph)
    if kind == "espdl":
        if shapes:
            raise UsageError(f"--shape is for a dynamic ONNX; the shapes of {path} are fixed")
        graph = open_models([path]).graph
        return ModelFacts(*identity, _specs(graph, graph.inputs), _specs(graph, graph.network_outputs()), graph=graph)
    summary = summarize(parse(data, os.path.basename(path)))
    compiled, why_not_compiled = None, "it is a float ONNX, which has no quantized tensors"
    if kind == "quant.onnx":
        compiled, why_not_compiled = _compile(path, data, shapes or {})
    contents = summary.inputs, summary.outputs, summary.operators, summary.opsets
    return ModelFacts(*identity, *contents, compiled, why_not_compiled)


def _inspect_module(path: str, data: bytes) -> ModelFacts:
    """Returns the contents of a text of tpu-mlir: its tensors by the toolkit's names, in the order of the network."""
    module = read_module(data, path)
    by_id = module.by_id
    tensors, nodes = dict[str, TensorSpec](), list[Node]()
    for op in module.computed:
        quantization = op.quantization
        spec = TensorSpec(op.tensor, "float32" if quantization is None else quantization.dtype, op.shape)
        if quantization is not None:
            spec = replace(spec, scale=(quantization.scale,), zero_point=(quantization.zero_point,))
        tensors[op.tensor] = spec
        operands = [by_id[i].tensor for i in op.operands if i in by_id]
        if op.name != INPUT:
            label = op.name.partition(".")[2] + (f" ({op.element})" if op.element not in ("", "f32") else "")
            known = tuple(name for name in operands if name in tensors)
            nodes.append(Node(op.tensor, label, known, (op.tensor,), (), (), False))
    inputs = tuple(op.tensor for op in module.computed if op.name == INPUT)
    read = {name for node in nodes for name in node.inputs}
    graph = Graph(nodes, tensors, {}, inputs, tuple(n.name for n in nodes if n.name not in read))
    facts = ", ".join(module.facts[key] for key in ("chip", "mode", "state") if key in module.facts)
    identity = path, f"{MODULE} ({facts})" if facts else MODULE, len(data), hashlib.sha256(data).hexdigest()
    return ModelFacts(*identity, _specs(graph, graph.inputs), _specs(graph, graph.outputs), graph=graph)


def _compile(path: str, data: bytes, shapes: dict[str, tuple[int, ...]]) -> tuple[Graph | None, str]:
    """Returns the compiled graph and "", or None and the reason why the model does not compile."""
    options = CompilerOptions(check=False, host=True, shapes=shapes, folder=os.path.dirname(os.path.abspath(path)))
    try:
        return compile_model(data, os.path.basename(path), options).graph, ""
    except QVerifyError as error:
        return None, f"it does not compile ({error})"


def _specs(graph: Graph, names: tuple[str, ...]) -> tuple[tuple[str, str, str], ...]:
    """Returns (name, dtype, shape as text) of each named tensor that the graph has."""
    specs = [graph.tensors[n] for n in names if n in graph.tensors]
    return tuple((s.name, s.dtype, "x".join(map(str, s.shape)) or "scalar") for s in specs)
