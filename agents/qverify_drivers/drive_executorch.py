"""ExecuTorch: builds a program (.pte) of the quantized ONNX, whose taps are further results, and runs it in the same process.
A .pte that was built elsewhere has results without names, in the order of the network's."""

from __future__ import annotations

import hashlib
import json
import os
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from drive import Answer, Placed, Refused, Request
from onnx_to_torch import ONNX_NODE, program_of_onnx

BACKENDS = ("xnnpack", "portable")


def run(request: Request) -> Answer:
    """Runs the program once. Taps that the ONNX does not have are left out, and all of them for a .pte."""
    backend = request.option("backend", "xnnpack")
    if backend not in BACKENDS:
        raise Refused(f"backend={backend}: wanted one of {', '.join(BACKENDS)}")
    with open(request.model, "rb") as file:
        model = file.read()
    is_program = model[4:8] == b"ET12"
    if is_program:
        data, names, placed = model, list(request.outputs), list[Placed]()
    else:
        data, names, placed = _built(request, model, backend)
    values = _execute(data, [request.inputs[name] for name in request.inputs])
    if len(values) != len(names):
        raise Refused(f"the program has {len(values)} results; wanted {len(names)}, in the network's order")
    notes = (
        ["the .pte has no names: its results are paired with the network's outputs by their order"]
        if is_program
        else []
    )
    if any(np.asarray(v).dtype == np.uint8 for v in values) and any("Xnnpack" in p.on for p in placed):
        notes.append(
            "tensors of uint8 in the XNNPACK delegate, whose kernels are made for int8: quantize the network as int8"
        )
    packages = {name: version(name) for name in ("executorch", "torch", "torchao")}
    tensors = dict(zip(names, values))  # noqa: B905 (strict= is of Python 3.10)
    return Answer(tensors, "executorch", packages["executorch"], packages, placed, notes)


def _built(request: Request, model: bytes, backend: str) -> tuple[bytes, list[str], list[Placed]]:
    """Returns a program of the ONNX with the taps as further results, the names of its results, and where its nodes run;
    from the folder `cache` if an earlier run built it."""
    key = hashlib.sha256(json.dumps([backend, version("executorch"), request.outputs, request.taps]).encode() + model)
    path = os.path.join(request.option("cache"), f"{key.hexdigest()}.pte") if request.option("cache") else ""
    if path and os.path.isfile(path) and os.path.isfile(f"{path}.json"):
        with open(path, "rb") as file, open(f"{path}.json", encoding="utf-8") as stored:
            names, rows = json.load(stored)
            return file.read(), names, [Placed(*row) for row in rows]
    program, names = program_of_onnx(model, request.inputs, [*request.outputs, *request.taps])
    data, placed = _lowered(program, tuple(map(torch.from_numpy, request.inputs.values())), backend)
    if path:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        facts = [[p.node, p.op, p.on, p.kernel, p.fallback] for p in placed]
        for name, content in ((f"{path}.json", json.dumps([names, facts]).encode()), (path, data)):
            with open(f"{name}.{os.getpid()}", "wb") as made:
                made.write(content)
            os.replace(f"{name}.{os.getpid()}", name)
    return data, names, placed


def _lowered(module: Any, example: tuple[Any, ...], backend: str) -> tuple[bytes, list[Placed]]:
    """Returns the program's bytes and where its nodes run."""
    import executorch.kernels.quantized  # noqa: F401 (registers the operators that are built)
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    partitioners = []
    if backend == "xnnpack":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        partitioners = [XnnpackPartitioner()]
    config = EdgeCompileConfig(_check_ir_validity=False)
    with torch.no_grad():
        with (
            torch.fx.traceback.preserve_node_meta()
        ):  # only here: passes of the backends refuse nodes that have it already
            exported = torch.export.export(module, example)
        edge = to_edge_transform_and_lower(exported, partitioner=partitioners or None, compile_config=config)
        placed = _placement(edge.exported_program().graph_module, backend)
        return bytes(edge.to_executorch().buffer), placed


def _placement(module: Any, backend: str) -> list[Placed]:
    """Returns where each node of the lowered program runs: within a delegate, or by a portable kernel."""
    placed = []
    for node in module.graph.nodes:
        name = getattr(node.target, "__name__", str(node.target))
        if node.op != "call_function" or "getitem" in name:
            continue
        if "call_delegate" not in name:
            placed.append(Placed(_origin(node), _op(node), "portable kernels", "", backend != "portable"))
            continue
        lowered = getattr(module, node.args[0].name)
        inner = [n for n in lowered.original_module.graph.nodes if n.op == "call_function"]
        placed += [
            Placed(_origin(n), _op(n), lowered.backend_id, node.args[0].name)
            for n in inner
            if "getitem" not in str(n.target)
        ]
    return placed


def _origin(node: Any) -> str:
    """Returns the ONNX's name of a node, else its own."""
    return str((node.meta.get("custom") or {}).get(ONNX_NODE, node.name))


def _op(node: Any) -> str:
    return str(getattr(node.target, "__name__", node.target)).replace("aten.", "").replace(".default", "")


def _execute(data: bytes, inputs: list[Any]) -> list[Any]:
    import executorch.kernels.quantized  # noqa: F401 (registers the kernels that run, also of a program built before)
    from executorch.runtime import Runtime

    program = Runtime.get().load_program(data)
    if len(program.method_names) != 1 and "forward" not in program.method_names:
        raise Refused(f"the .pte has the methods {', '.join(sorted(program.method_names))}; wanted forward")
    name = "forward" if "forward" in program.method_names else next(iter(program.method_names))
    method = program.load_method(name)
    results = method.execute([torch.from_numpy(np.ascontiguousarray(value)) for value in inputs])
    return [r.detach().numpy().copy() if hasattr(r, "detach") else np.asarray(r) for r in results]
