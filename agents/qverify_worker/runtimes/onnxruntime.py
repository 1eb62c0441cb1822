"""onnxruntime's Python package: ONNX models, by any execution provider that it has."""

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
from qverify_worker.model import Array, Settings

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
MOST_PROFILE = 256 << 20  # bytes of a profile that are read
CPU = "CPUExecutionProvider"
OWNER = re.compile(r"qverify\.(\d{1,9})\.")


def version() -> str:
    """Returns the library's version. Raises ImportError."""
    import onnxruntime

    return str(onnxruntime.__version__)


def features(settings: Settings) -> list[str]:
    """Returns what a board with these settings offers."""
    return ["finals", "per_node", "inject", "digests"]


def open_model(data: bytes, settings: Settings) -> OnnxModel:
    """Opens an ONNX model. Raises RequestError for a provider that this build lacks, and for a model that it refuses."""
    return OnnxModel(data, settings)


class OnnxModel:
    """A Model (model.py). Its first run is profiled, which shows the provider and the time of each node. A node that the
    host calls qverify.K.N belongs to output K."""

    def __init__(self, data: bytes, settings: Settings):
        import onnxruntime as ort

        ort.set_default_logger_severity(3)
        self._ort, self._data, self._settings = ort, data, settings
        self._providers = self._wanted_providers()
        self._folder = tempfile.TemporaryDirectory(prefix="qverify-profile-")
        self._session: Any = self._open(os.path.join(self._folder.name, "profile"))
        self._placement: Counter[str] | None = None
        self.seconds: dict[str, float] = {}
        self.inputs = [(i.name, self._dtype(i), _dims(i.shape)) for i in self._session.get_inputs()]
        self.outputs = [o.name for o in self._session.get_outputs()]

    def _wanted_providers(self) -> list[tuple[str, dict[str, str]]]:
        there = self._ort.get_available_providers()
        wanted = [(_full_name(name, there), dict(options)) for name, options in self._settings.providers]
        for name, _ in wanted:
            if name not in there:
                raise RequestError(UNSUPPORTED, f"provider {name}: this onnxruntime has {', '.join(there)}")
        return wanted if any(name == CPU for name, _ in wanted) else [*wanted, (CPU, {})]

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
        try:
            return self._ort.InferenceSession(self._data, options, providers=names, provider_options=details)
        except Exception as error:
            raise RequestError(FORMAT, f"onnxruntime refuses the model: {_first_line(error)}") from error

    @staticmethod
    def _dtype(value: Any) -> np.dtype[Any]:
        kind = str(value.type).removeprefix("tensor(").removesuffix(")")
        if kind not in TYPES:
            raise RequestError(UNSUPPORTED, f"input {value.name}: of type {value.type}, which is not supported")
        return np.dtype(TYPES[kind])

    def run(self, values: dict[str, Array], wanted: Collection[str]) -> dict[str, Array]:
        """Returns the outputs by name. Raises RequestError where onnxruntime fails."""
        self.seconds = {}
        try:
            return self._run(self._session, values)
        finally:
            if self._placement is None:
                events = self._end_profile(self._session)
                self._placement = _placement(events)
                self.seconds = next(iter(_times(events, self.outputs)), {})
                self._folder.cleanup()

    def time(self, values: dict[str, Array], wanted: Collection[str], runs: int) -> list[dict[str, float]]:
        """Returns, for each of these runs of a session of its own, after a first one, the seconds of each output's nodes."""
        with tempfile.TemporaryDirectory(prefix="qverify-profile-") as folder:
            session = self._open(os.path.join(folder, "profile"))
            for _ in range(runs + 1):
                self._run(session, values)
            return _times(self._end_profile(session), self.outputs)[1:]

    def _run(self, session: Any, values: dict[str, Array]) -> dict[str, Array]:
        try:
            made = session.run(self.outputs, values)
        except Exception as error:
            raise RequestError(INTERNAL, f"onnxruntime fails: {_first_line(error)}") from error
        return {name: np.asarray(value) for name, value in zip(self.outputs, made)}  # noqa: B905 (strict= is of Python 3.10)

    @staticmethod
    def _end_profile(session: Any) -> list[Any]:
        """Returns the events of the session's profile; [] for one that cannot be read."""
        with contextlib.suppress(OSError, ValueError):
            path = session.end_profiling()
            if os.path.getsize(path) <= MOST_PROFILE:
                with open(path, encoding="utf-8") as file:
                    events = json.load(file)
                return events if isinstance(events, list) else []
        return []

    def report(self) -> dict[str, Any]:
        """Returns how many nodes each provider ran, as onnxruntime's profile of the first run says."""
        return {"nodes_by_provider": dict(sorted((self._placement or Counter()).items()))}


def _times(events: list[Any], outputs: list[str]) -> list[dict[str, float]]:
    """Returns, run by run, the seconds of the nodes of each output. What onnxruntime added, as a change of layout, belongs
    to the named node that runs next, if there is one."""
    ran = [e for e in events if isinstance(e, dict) and e.get("cat") == "Node" and _is_kernel(e)]
    runs: list[dict[str, float]] = []
    often, owner, early = Counter[str](), "", 0.0
    for event in sorted(ran, key=lambda e: float(e.get("ts", 0))):
        key = f"{event['name']} {event['args'].get('node_index')}"
        often[key] += 1
        if often[key] > len(runs):
            runs.append({})
            owner, early = "", 0.0
        seconds, found = float(event.get("dur", 0)) / 1e6, OWNER.search(str(event["name"]))
        if found is None or int(found[1]) >= len(outputs):
            early += seconds
            continue
        owner = outputs[int(found[1])]
        runs[-1][owner] = runs[-1].get(owner, 0.0) + seconds + early
        early = 0.0
    return runs


def _is_kernel(event: dict[str, Any]) -> bool:
    return str(event.get("name", "")).endswith("_kernel_time") and isinstance(event.get("args"), dict)


def _placement(events: Any) -> Counter[str]:
    """Returns the nodes that ran, by provider, each once."""
    seen: dict[str, str] = {}
    for event in events if isinstance(events, list) else []:
        about = event.get("args") if isinstance(event, dict) and event.get("cat") == "Node" else None
        if isinstance(about, dict) and _is_kernel(event) and "provider" in about:
            seen[f"{event['name']} {about.get('node_index')}"] = str(about["provider"])
    return Counter(seen.values())


def _full_name(name: str, there: list[str]) -> str:
    """Returns the provider's name as onnxruntime spells it: XNNPACK, xnnpack and XnnpackExecutionProvider are one."""
    wanted = name.lower().removesuffix("executionprovider")
    return next((p for p in there if p.lower().removesuffix("executionprovider") == wanted), name)


def _dims(shape: Any) -> tuple[int, ...]:
    return tuple(d if isinstance(d, int) and d > 0 else 0 for d in shape)


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:600]
