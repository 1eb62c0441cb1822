"""The only import of onnxruntime: sessions with pinned settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError

from qverify.errors import BadFileError
from qverify.printable import said_by

Array = npt.NDArray[Any]
LEVELS = ("disable_all", "basic", "extended", "all")


def version() -> str:
    """Returns onnxruntime's version."""
    return str(_onnxruntime().__version__)


def _onnxruntime() -> Any:
    """Returns the module. Since version 1.29 it reports the use of models to its makers over the network, unless this
    variable is there before it is imported; what is verified stays on this machine."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def _left_out(model: bytes, level: str) -> list[str]:
    """Returns the optimizers that are left out. NchwcTransformer, which ends the process on many a model with float16 in
    it (onnxruntime 1.31: Transpose and MatMul of float16), only has kernels of float32."""
    left_out = ["WeightBiasQuantization"]
    if level != "all":
        return left_out
    try:
        graph = onnx.load_from_string(model).graph
    except DecodeError:
        return left_out  # onnxruntime says so
    half = any(i.data_type == onnx.TensorProto.FLOAT16 for i in graph.initializer) or any(
        a.name == "to" and a.i == onnx.TensorProto.FLOAT16 for n in graph.node for a in n.attribute
    )
    return [*left_out, "NchwcTransformer"] if half else left_out


class Engine:
    """One onnxruntime session. settings: the pinned settings, for the report. Raises BadFileError for a model it
    refuses."""

    def __init__(
        self,
        model: bytes,
        level: str = "disable_all",
        threads: int = 2,
        allow_int8: bool = True,
        precision: bool = False,
        optimized_path: str = "",
    ):
        ort = _onnxruntime()
        options = ort.SessionOptions()
        chosen = {
            "disable_all": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
            "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
            "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
            "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
        }
        options.graph_optimization_level = chosen[level]
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4
        if allow_int8:
            options.add_session_config_entry("session.qdqisint8allowed", "1")
        if precision:
            options.add_session_config_entry("session.x64quantprecision", "1")
        if optimized_path:
            options.optimized_model_filepath = optimized_path
        self.settings = {
            "level": level,
            "threads": threads,
            "qdqisint8allowed": int(allow_int8),
            "x64quantprecision": int(precision),
        }
        try:
            self._session = ort.InferenceSession(
                model, options, providers=["CPUExecutionProvider"], disabled_optimizers=_left_out(model, level)
            )
        except Exception as error:  # onnxruntime raises its own pybind types, all derived from Exception only
            raise BadFileError(f"onnxruntime refuses the model: {said_by(error)}") from error
        self.inputs = [i.name for i in self._session.get_inputs()]
        self.outputs = [o.name for o in self._session.get_outputs()]
        self.tensors = {o.name for o in self._session.get_outputs() if o.type.startswith("tensor")}  # no sequences

    def run(self, feed: Mapping[str, Array], names: Sequence[str] | None = None) -> dict[str, Array]:
        """Returns the named outputs (all by default). Raises BadFileError if onnxruntime fails."""
        wanted = list(names) if names is not None else self.outputs
        if not wanted:  # onnxruntime takes an empty list for all
            return {}
        try:
            values = self._session.run(
                wanted, {n: np.asarray(feed[n]) for n in self.inputs}
            )  # rank 0 may be a numpy scalar
        except Exception as error:
            raise BadFileError(f"onnxruntime fails on the model: {said_by(error)}") from error
        return {n: np.asarray(v) for n, v in zip(wanted, values, strict=True)}
