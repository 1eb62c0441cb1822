"""onnxruntime with an execution provider: a plug-in library that is registered first, or one that this build has. Where each
node ran is read from the session's record of assignments, since get_providers() also lists a provider that runs nothing."""

from __future__ import annotations

import importlib
import os
from typing import Any

import onnxruntime
from drive import Answer, Placed, Refused, Request, node_outputs, tapped

CPU = "CPUExecutionProvider"
SUFFIX = "ExecutionProvider"
SPELLED = {"qnn": "QNN", "openvino": "OpenVINO", "cpu": "CPU", "cuda": "CUDA", "xnnpack": "XNNPACK"}  # else as given
LEVELS = {
    "disable_all": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
BUILT_IN = onnxruntime.get_available_providers()  # before a library is registered, which is then listed, too
MAX_NAMED = 3  # nodes in a message


def run(request: Request) -> Answer:
    """Runs the ONNX once. Taps that the ONNX does not have are left out."""
    with open(request.model, "rb") as file:
        model = file.read()
    known = node_outputs(model)
    taps = [name for name in request.taps if name in known]
    model = tapped(model, taps)
    provider, package = _register(request)
    may_fall_back = request.option("cpu_fallback", "0") == "1" or provider == CPU
    session, placed = _open(request, model, provider, may_fall_back)
    names = [*request.outputs, *taps]
    if missing := next((n for n in request.outputs if n not in {o.name for o in session.get_outputs()}), None):
        raise Refused(f"the ONNX has no output {missing!r}")
    values = session.run(names, request.inputs)
    ledger = {"onnxruntime": onnxruntime.__version__, **_versions(provider, package)}
    return Answer(
        {name: value for name, value in zip(names, values)},  # noqa: B905 (strict= is of Python 3.10)
        f"onnxruntime {provider}",
        onnxruntime.__version__,
        ledger,
        placed,
        _notes(session, provider, placed),
    )


def _register(request: Request) -> tuple[str, Any]:
    """Registers the library of the provider. Returns the provider's name and its Python package, None without one."""
    short = request.option("ep")
    provider, library = request.option("provider"), request.option("library", "auto")
    provider = provider or (f"{SPELLED.get(short.lower(), short.removesuffix(SUFFIX))}{SUFFIX}" if short else "")
    if not provider:
        raise Refused(
            "onnxruntime: no execution provider; wanted ep=NAME (as ep=qnn), or provider=NAME with library=PATH"
        )
    if library == "auto" and provider in BUILT_IN:
        return provider, None
    if library != "auto":
        if not os.path.isfile(library):
            raise Refused(f"library={library}: no such file; wanted the execution provider's library, or auto")
        onnxruntime.register_execution_provider_library(provider, library)
        return provider, None
    package = _package(short or provider.removesuffix(SUFFIX), provider)
    onnxruntime.register_execution_provider_library(provider, package.get_library_path())
    return provider, package


def _package(short: str, provider: str) -> Any:
    """Returns the Python package that brings the provider's library."""
    names = [f"onnxruntime_{short.lower()}", f"onnxruntime_ep_{short.lower()}"]
    for name in names:
        try:
            package = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
        else:
            return package
    raise Refused(
        f"{provider}: this onnxruntime has {', '.join(BUILT_IN)}, and there is no package "
        f"{' or '.join(names)}; install one in this interpreter, or give library=PATH"
    )


def _open(request: Request, model: bytes, provider: str, may_fall_back: bool) -> tuple[Any, list[Placed]]:
    """Returns the session and where its nodes run."""
    try:
        session = _session(request, model, provider, may_fall_back)
    except Refused:
        raise
    except Exception as error:
        if may_fall_back or "fallback to CPU EP has been explicitly disabled" not in str(error):
            raise
        placed = _placement(_session(request, model, provider, True), provider)
        fallen = [p for p in placed if p.fallback]
        named = ", ".join(f"{p.node} ({p.op})" for p in fallen[:MAX_NAMED])
        raise Refused(
            f"{provider} does not run {len(fallen)} of {len(placed)} nodes: {named}{' ...' if len(fallen) > MAX_NAMED else ''}; "
            "cpu_fallback=1 lets the processor run them, and the report says which"
        ) from error
    placed = _placement(session, provider)
    if not may_fall_back and placed and all(p.fallback for p in placed):
        raise Refused(f"{provider} runs none of the {len(placed)} nodes; cpu_fallback=1 lets the processor run them")
    return session, placed


def _session(request: Request, model: bytes, provider: str, may_fall_back: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "0" if may_fall_back else "1")
    for pair in request.options.get("session", ()):
        options.add_session_config_entry(*_pair("session", pair))
    level = request.option("level", "all")
    if level not in LEVELS:
        raise Refused(f"level={level}: wanted one of {', '.join(LEVELS)}")
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
    details = dict(_pair("config", pair) for pair in request.options.get("config", ()))
    for key in ("backend_type", "offload_graph_io_quantization"):
        if key in request.options:
            details[key] = request.option(key)
    if provider.startswith("QNN"):  # else Q and DQ at the network's ends are given to the processor
        details.setdefault("offload_graph_io_quantization", "0")
    if devices := _devices(provider, request.option("device")):
        options.add_provider_for_devices(devices, details)
    else:
        options.add_provider(provider, details)
    session = onnxruntime.InferenceSession(model, options)
    session.disable_fallback()  # else a run that fails is repeated on the processor without a word
    return session


def _devices(provider: str, wanted: str) -> list[Any]:
    """Returns the devices of the provider that the session uses; [] for one that onnxruntime was built with."""
    get_devices = getattr(onnxruntime, "get_ep_devices", list)  # onnxruntime 1.23 and later
    devices = [d for d in get_devices() if d.ep_name == provider and provider != CPU]
    if not devices and provider in BUILT_IN:
        return []
    if not devices:
        raise Refused(f"{provider}: its library is registered, but offers no device of this machine")
    kinds = [str(d.device.type).rpartition(".")[2] for d in devices]
    chosen = [d for d, kind in zip(devices, kinds) if wanted.upper() in ("", kind)]  # noqa: B905
    if not chosen or (len(devices) > 1 and not wanted):
        raise Refused(f"device={wanted}: {provider} has the devices {', '.join(kinds)}; wanted one of them")
    return chosen


def _placement(session: Any, provider: str) -> list[Placed]:
    """Returns where each node runs, by the session's own record. Nodes that were folded into constants are not in it."""
    return [
        Placed(node.name, node.op_type, part.ep_name, "", part.ep_name != provider)
        for part in session.get_provider_graph_assignment_info()
        for node in part.get_nodes()
    ]


def _notes(session: Any, provider: str, placed: list[Placed]) -> list[str]:
    """Returns a line where the whole session fell back although the provider is listed, and one where nothing is known."""
    if not placed:
        return ["onnxruntime recorded no assignment of nodes, so where they ran is not known"]
    if not all(p.fallback for p in placed):
        return []
    listed = ", ".join(session.get_providers())
    return [
        f"the whole session fell back: onnxruntime lists {listed}, but {provider} runs none of the {len(placed)} nodes"
    ]


def _versions(provider: str, package: Any) -> dict[str, str]:
    """Returns the versions of the provider's library and of its Python package."""
    versions = {}
    for device in onnxruntime.get_ep_devices() if hasattr(onnxruntime, "get_ep_devices") else []:
        if device.ep_name == provider:
            versions[provider] = str(dict(device.ep_metadata).get("version", "not stated"))
            versions.setdefault(f"device {str(device.device.type).rpartition('.')[2]}", device.device.vendor)
    if package is not None:
        info = getattr(package, "build_and_package_info", None)
        versions[getattr(info, "package_name", package.__name__)] = str(getattr(package, "__version__", "not stated"))
        if sdk := getattr(info, "qnn_version", ""):
            versions["QNN SDK"] = str(sdk)
    return versions


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equal, value = text.partition("=")
    if not equal:
        raise Refused(f"{option}={text}: wanted {option}=KEY=VALUE")
    return key, value
