"""OpenVINO: read_model, taps as further results, one inference. Integers of quantized tensors come out as they are."""

from __future__ import annotations

from typing import Any

import openvino
from drive import Answer, Placed, Refused, Request

FIRST_VERSION = (2024, 0)


def run(request: Request) -> Answer:
    """Runs the ONNX once. Taps that the engine's graph does not have are left out."""
    core = openvino.Core()
    device = request.option("device", "CPU")
    if device.split(":")[0].split(".")[0] not in {*(d.split(".")[0] for d in core.available_devices), "AUTO", "HETERO"}:
        raise Refused(f"device={device}: this OpenVINO has {', '.join(core.available_devices)}")
    model = core.read_model(request.model)
    known = {name for node in model.get_ordered_ops() for output in node.outputs() for name in output.get_names()}
    model.add_outputs([name for name in request.taps if name in known])
    config: dict[str, Any] = {"INFERENCE_PRECISION_HINT": request.option("precision", "f32")}
    config.update(pair.split("=", 1) for pair in request.options.get("config", ()))
    compiled = core.compile_model(model, device, config)
    result = compiled({_name(compiled, name): value for name, value in request.inputs.items()})
    wanted = {*request.outputs, *request.taps}
    tensors = {
        name: result[output] for output in compiled.outputs for name in sorted(output.get_names()) if name in wanted
    }
    if missing := [name for name in request.outputs if name not in tensors]:
        raise Refused(f"OpenVINO's graph has no output {missing[0]!r}; it has {', '.join(map(str, compiled.outputs))}")
    version = openvino.get_version()
    ran_on = [str(name) for name in compiled.get_property("EXECUTION_DEVICES")]
    ledger = {"openvino": version, **{name: str(core.get_property(name, "FULL_DEVICE_NAME")) for name in ran_on}}
    placed = _placement(compiled, ran_on[0], device) if len(ran_on) == 1 else []
    notes = [] if placed else [f"{device} ran on {', '.join(ran_on)}; which node ran on which is not known"]
    return Answer(tensors, "openvino", version.split("-")[0], ledger, placed, notes)


def _name(compiled: Any, name: str) -> Any:
    """Returns the input port of this name."""
    for port in compiled.inputs:
        if name in port.get_names():
            return port
    raise Refused(f"OpenVINO's graph has no input {name!r}")


def _placement(compiled: Any, ran_on: str, device: str) -> list[Placed]:
    """Returns the nodes that OpenVINO really runs, from its runtime model. ran_on: the one device that executed. device: the
    one that was asked for; AUTO leaves the choice to OpenVINO."""
    fell_back = not device.startswith("AUTO") and ran_on.split(".")[0] not in device
    placed = []
    for node in compiled.get_runtime_model().get_ordered_ops():
        facts = {
            key: str(value.value if hasattr(value, "value") else value) for key, value in node.get_rt_info().items()
        }
        op = facts.get("layerType", node.get_type_name())
        if op in ("Input", "Output", "Const", "Parameter", "Result", "Constant"):
            continue
        kernel = " ".join(v for v in (facts.get("primitiveType", ""), facts.get("runtimePrecision", "")) if v)
        names = facts.get("originalLayersNames", "") or node.get_friendly_name()
        placed.append(Placed(names.split(",")[0], op, ran_on, kernel, fell_back))
    return placed
