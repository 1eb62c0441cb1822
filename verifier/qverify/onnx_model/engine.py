"""Runs models on onnxruntime with pinned settings. This is the only file that imports onnxruntime in this process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError

from qverify.errors import BadFileError, RefusedModelError
from qverify.onnx_model.crash_watch import onnxruntime_runs
from qverify.onnx_model.guard_divisions import guard_divisions
from qverify.onnx_model.held_data import FOLDER, held_in
from qverify.onnx_model.light_model import FLOATS
from qverify.printable import describe_error

Array = npt.NDArray[Any]
MANY_BYTES = 1 << 26  # of lent constants
LEVELS = ("disable_all", "basic", "extended", "all")
NO_SPINNING = (
    "session.intra_op.allow_spinning",
    "0",
)  # waiting threads sleep instead of spinning; results are unaffected


def describe_refusal(name: str, why: str) -> str:
    """Returns one line on a file that onnxruntime refuses: what it is, what is wanted, and the next step. why: the text of
    RefusedModelError."""
    if newest := re.search(r"domain (\S+) is till opset (\d+)", why):
        of = "" if newest[1] == "ai.onnx" else f" of {newest[1]}"
        return (
            f"{name}: onnxruntime refuses the model: it is of a newer opset{of} than {newest[2]}, which onnxruntime {version()} "
            f"runs at most; export it with opset {newest[2]} or lower, or install a newer onnxruntime"
        )
    return f"{name}: {why.rstrip('. ')}; wanted an ONNX that onnxruntime {version()} runs: export it again, or give the right file"


_opened = False


def has_opened() -> bool:
    """Returns whether this process has opened a session, whose threads a copy of the process would not have."""
    return _opened


def version() -> str:
    """Returns onnxruntime's version."""
    return str(_onnxruntime().__version__)


def _onnxruntime() -> Any:
    """Returns the onnxruntime module, imported with telemetry disabled. Since version 1.29 it reports the use of models
    to its makers over the network unless this variable is set before the import."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def load_quantization() -> Any:
    """Returns a namespace with the classes and functions of onnxruntime's quantizer that quantizer.py uses. Its
    `reader` is a CalibrationDataReader over an iterator of feeds."""
    _onnxruntime()
    from types import SimpleNamespace

    from onnxruntime import quantization
    from onnxruntime.quantization.execution_providers.qnn.mixed_precision_overrides_utils import (
        MixedPrecisionTensorQuantOverridesFixer,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process
    from onnxruntime.quantization.tensor_quant_overrides import TensorQuantOverridesHelper

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, feeds: Iterator[Mapping[str, Array]]):
            self._feeds = feeds

        def get_next(self) -> dict[str, Array] | None:
            feed = next(self._feeds, None)
            return None if feed is None else dict(feed)

    names = ("QuantType", "QuantFormat", "CalibrationMethod", "quantize_static")
    return SimpleNamespace(
        **{n: getattr(quantization, n) for n in names},
        quant_pre_process=quant_pre_process,
        TensorQuantOverridesHelper=TensorQuantOverridesHelper,
        Fixer=MixedPrecisionTensorQuantOverridesFixer,
        reader=Reader,
    )


def _disabled_optimizers(model: bytes, level: str) -> list[str]:
    """Returns the names of the optimizers to disable. NchwcTransformer is disabled for models with float16, many of
    which make it end the process (onnxruntime 1.31: Transpose and MatMul of float16); it only has float32 kernels
    anyway."""
    left_out = ["WeightBiasQuantization"]
    if level != "all":
        return left_out
    try:
        graph = onnx.load_from_string(model).graph
    except DecodeError:
        return left_out  # the session reports it
    half = any(i.data_type == onnx.TensorProto.FLOAT16 for i in graph.initializer) or any(
        a.name == "to" and a.i == onnx.TensorProto.FLOAT16 for n in graph.node for a in n.attribute
    )
    return [*left_out, "NchwcTransformer"] if half else left_out


def _has_float_matrices(model: bytes) -> bool:
    """Returns whether the model has constants of floats with two dims or more."""
    initializers = onnx.load_from_string(model).graph.initializer
    return any(len(i.dims) > 1 and i.data_type in FLOATS and prod(i.dims) > 1 for i in initializers)


class Engine:
    """One onnxruntime session. Raises BadFileError if onnxruntime refuses the model.

    Attributes:
        settings: the pinned settings, for the report.
        inputs, outputs: names of the model's inputs and outputs.
        tensors: names of the outputs that are tensors, not sequences.
    """

    def __init__(
        self,
        model: bytes,
        level: str = "disable_all",
        threads: int = 2,
        allow_int8: bool = True,
        precision: bool = False,
        optimized_path: str = "",
        lent: Mapping[str, Array] | None = None,
    ):
        """Opens the session. Integer divisions of the model are guarded (guard_divisions.py).

        level: one of LEVELS, the graph optimization level. lent: arrays for the initializers that have no data in the
        model; onnxruntime reads them in place, without a copy."""
        global _opened
        _opened = True
        model = guard_divisions(model)
        ort = _onnxruntime()
        options = ort.SessionOptions()
        levels = {
            "disable_all": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
            "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
            "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
            "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
        }
        options.graph_optimization_level = levels[level]
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4
        options.add_session_config_entry(*NO_SPINNING)
        if allow_int8:
            options.add_session_config_entry("session.qdqisint8allowed", "1")
        if precision:
            options.add_session_config_entry("session.x64quantprecision", "1")
        if optimized_path:
            options.optimized_model_filepath = optimized_path
        lent = {**held_in(model), **(lent or {})}
        self._lend(ort, options, lent, level, model)
        self.settings = {
            "level": level,
            "threads": threads,
            "qdqisint8allowed": int(allow_int8),
            "x64quantprecision": int(precision),
        }
        try:
            disabled = _disabled_optimizers(model, level)
            with onnxruntime_runs():
                self._session = ort.InferenceSession(
                    model, options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled
                )
        except Exception as error:  # onnxruntime raises its own pybind types, all derived from Exception only
            raise RefusedModelError(f"onnxruntime refuses the model: {describe_error(error)}") from error
        self.inputs = [i.name for i in self._session.get_inputs()]
        self.outputs = [o.name for o in self._session.get_outputs()]
        self.tensors = {o.name for o in self._session.get_outputs() if o.type.startswith("tensor")}

    def _lend(self, ort: Any, options: Any, lent: Mapping[str, Array], level: str, model: bytes) -> None:
        """Gives onnxruntime the arrays of the initializers that have no data in the model. Its optimizers read some of them
        from the model, so that they get a copy."""
        self._lent = {n: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(v)) for n, v in lent.items()}
        if level != "disable_all" and lent:
            options.add_external_initializers(list(self._lent), list(self._lent.values()))
        if lent:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", FOLDER)
        for name, value in self._lent.items():
            options.add_initializer(name, value)
        if sum(v.nbytes for v in lent.values()) >= MANY_BYTES:
            options.enable_cpu_mem_arena = False  # it keeps the memory of all tensors that were computed
            if not _has_float_matrices(
                model
            ):  # integer products are exact, packed or not; float ones may round otherwise
                options.add_session_config_entry("session.disable_prepacking", "1")  # a copy of all weights

    def run(self, feed: Mapping[str, Array], names: Sequence[str] | None = None) -> dict[str, Array]:
        """Returns the named outputs (all by default). Raises BadFileError if onnxruntime fails."""
        wanted = list(names) if names is not None else self.outputs
        if not wanted:  # onnxruntime would return all outputs for an empty list
            return {}
        try:
            fed = {n: np.asarray(feed[n]) for n in self.inputs}  # rank 0 may be a numpy scalar
            with onnxruntime_runs():
                values = self._session.run(wanted, fed)
        except Exception as error:
            raise BadFileError(f"onnxruntime fails on the model: {describe_error(error)}") from error
        return {n: np.asarray(v) for n, v in zip(wanted, values, strict=True)}
