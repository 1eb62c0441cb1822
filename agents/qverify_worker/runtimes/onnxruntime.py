"""onnxruntime's Python package: runs ONNX models, by any of its execution providers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np

from qverify_worker.errors import FORMAT, INTERNAL, UNSUPPORTED, RequestError
from qverify_worker.model import Array, RuntimeSettings

NAME = "onnxruntime"
LEVELS = {
    "disable_all": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
TYPES = {
    **{name: name for name in ("float16", "bool", *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)))},
    **{"float": "float32", "double": "float64"},
}
MAX_PROFILE_BYTES = 256 << 20  # a larger profile is not read
CPU = "CPUExecutionProvider"
OUTPUT_OF_NODE = re.compile(r"qverify\.(\d{1,9})\.")


def version() -> str:
    """Returns the library's version. Raises ImportError."""
    import onnxruntime

    return str(onnxruntime.__version__)


def features(settings: RuntimeSettings) -> list[str]:
    """Returns the features that a board with these settings offers (PROTOCOL.md)."""
    return ["finals", "per_node", "inject", "digests"]


def open_model(data: bytes, settings: RuntimeSettings) -> OnnxModel:
    """Opens an ONNX model. Raises RequestError if this build lacks a provider, or refuses the model."""
    return OnnxModel(data, settings)


class OnnxModel:
    """A Model (model.py). Its first run is profiled, which shows the provider and the time of each node. A node named
    qverify.K.N by the host belongs to output K."""

    def __init__(self, data: bytes, settings: RuntimeSettings):
        import onnxruntime as ort

        ort.set_default_logger_severity(3)
        self._ort, self._data, self._settings = ort, data, settings
        self._providers = self._select_providers()
        self._folder = tempfile.TemporaryDirectory(prefix="qverify-profile-")
        self._session: Any = self._open(os.path.join(self._folder.name, "profile"))
        self._placement: Counter[str] | None = None
        self.seconds: dict[str, float] = {}
        self.inputs = [(i.name, self._input_dtype(i), _dims(i.shape)) for i in self._session.get_inputs()]
        self.outputs = [o.name for o in self._session.get_outputs()]

    def _select_providers(self) -> list[tuple[str, dict[str, str]]]:
        available = self._ort.get_available_providers()
        requested = [(_full_name(name, available), dict(options)) for name, options in self._settings.providers]
        for name, _ in requested:
            if name not in available:
                raise RequestError(UNSUPPORTED, f"provider {name}: this onnxruntime has {', '.join(available)}")
        return requested if any(name == CPU for name, _ in requested) else [*requested, (CPU, {})]

    def _open(self, profile: str) -> Any:
        options = self._ort.SessionOptions()
        options.intra_op_num_threads = self._settings.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if self._settings.level:
            level = getattr(self._ort.GraphOptimizationLevel, LEVELS[self._settings.level])
            options.graph_optimization_level = level
        options.enable_profiling, options.profile_file_prefix = True, profile
        names, details = [n for n, _ in self._providers], [o for _, o in self._providers]
        disabled = {"disabled_optimizers": [*self._settings.disabled]} if self._settings.disabled else {}
        try:
            return self._ort.InferenceSession(
                self._data, options, providers=names, provider_options=details, **disabled
            )
        except Exception as error:
            raise RequestError(FORMAT, f"onnxruntime refuses the model: {_one_line(error)}") from error

    @staticmethod
    def _input_dtype(value: Any) -> np.dtype[Any]:
        kind = str(value.type).removeprefix("tensor(").removesuffix(")")
        if kind not in TYPES:
            raise RequestError(UNSUPPORTED, f"input {value.name}: of type {value.type}, which is not supported")
        return np.dtype(TYPES[kind])

    def run(self, values: dict[str, Array], wanted: Collection[str]) -> dict[str, Array]:
        """Returns the outputs by name. Raises RequestError if onnxruntime fails."""
        self.seconds = {}
        try:
            return self._run(self._session, values)
        finally:
            if self._placement is None:
                events = self._end_profile(self._session)
                self._placement = _count_nodes_by_provider(events)
                self.seconds = next(iter(_times_by_run(events, self.outputs)), {})
                self._folder.cleanup()

    def time(self, values: dict[str, Array], wanted: Collection[str], runs: int) -> list[dict[str, float]]:
        """Returns, for each run, the seconds that the nodes of each output took. Runs in a session of its own, after a
        first run that does not count."""
        with tempfile.TemporaryDirectory(prefix="qverify-profile-") as folder:
            session = self._open(os.path.join(folder, "profile"))
            for _ in range(runs + 1):
                self._run(session, values)
            return _times_by_run(self._end_profile(session), self.outputs)[1:]

    def _run(self, session: Any, values: dict[str, Array]) -> dict[str, Array]:
        try:
            outputs = session.run(self.outputs, values)
        except Exception as error:
            raise RequestError(INTERNAL, f"onnxruntime fails: {_one_line(error)}") from error
        return {name: np.asarray(value) for name, value in zip(self.outputs, outputs)}  # noqa: B905 (strict= is of Python 3.10)

    @staticmethod
    def _end_profile(session: Any) -> list[Any]:
        """Ends the session's profiling and returns the profile's events, or [] if they cannot be read."""
        with contextlib.suppress(OSError, ValueError):
            path = session.end_profiling()
            if os.path.getsize(path) <= MAX_PROFILE_BYTES:
                with open(path, encoding="utf-8") as file:
                    events = json.load(file)
                return events if isinstance(events, list) else []
        return []

    def report(self) -> dict[str, Any]:
        """Returns the number of nodes that each provider ran, from the profile of the first run."""
        return {"nodes_by_provider": dict(sorted((self._placement or Counter()).items()))}


def _times_by_run(events: list[Any], outputs: list[str]) -> list[dict[str, float]]:
    """Returns, for each run, the seconds that the nodes of each output took. The time of a node that onnxruntime added,
    such as a change of layout, is counted for the output of the next node that has a name."""
    kernels = [e for e in events if isinstance(e, dict) and e.get("cat") == "Node" and _is_kernel(e)]
    runs: list[dict[str, float]] = []
    executions, output, unassigned_s = Counter[str](), "", 0.0
    for event in sorted(kernels, key=lambda e: float(e.get("ts", 0))):
        key = f"{event['name']} {event['args'].get('node_index')}"
        executions[key] += 1
        if executions[key] > len(runs):
            runs.append({})
            output, unassigned_s = "", 0.0
        seconds, match = float(event.get("dur", 0)) / 1e6, OUTPUT_OF_NODE.search(str(event["name"]))
        if match is None or int(match[1]) >= len(outputs):
            unassigned_s += seconds
            continue
        output = outputs[int(match[1])]
        runs[-1][output] = runs[-1].get(output, 0.0) + seconds + unassigned_s
        unassigned_s = 0.0
    return runs


def _is_kernel(event: dict[str, Any]) -> bool:
    return str(event.get("name", "")).endswith("_kernel_time") and isinstance(event.get("args"), dict)


def _count_nodes_by_provider(events: Any) -> Counter[str]:
    """Returns the number of different nodes that ran, by provider."""
    provider_by_node: dict[str, str] = {}
    for event in events if isinstance(events, list) else []:
        arguments = event.get("args") if isinstance(event, dict) and event.get("cat") == "Node" else None
        if isinstance(arguments, dict) and _is_kernel(event) and "provider" in arguments:
            provider_by_node[f"{event['name']} {arguments.get('node_index')}"] = str(arguments["provider"])
    return Counter(provider_by_node.values())


def _full_name(name: str, available: list[str]) -> str:
    """Returns the name of a provider as onnxruntime spells it: XNNPACK, xnnpack and XnnpackExecutionProvider are the
    same."""
    short_name = name.lower().removesuffix("executionprovider")
    return next((p for p in available if p.lower().removesuffix("executionprovider") == short_name), name)


def _dims(shape: Any) -> tuple[int, ...]:
    return tuple(d if isinstance(d, int) and d > 0 else 0 for d in shape)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:600]
