"""The options of the functions by keyword. Written by `scripts/docs_output` from the table of options (qverify.options)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from qverify.api.signatures import Path, Shapes, Some

# ruff: noqa: UP013 (a line for each would be 200 lines)
# fmt: off

VerifyOptions = TypedDict("VerifyOptions", {
    "run_sim": "bool | str", "reference": "str", "simulator": "Some", "quantization": "Some", "shape": "Shapes",
    "signature": "str", "pull": "Literal['differ', 'all']", "arithmetic": "Path", "allow_other_model": "bool",
    "no_host": "bool", "repeat": "int", "check": "Some", "paranoid": "bool", "spot_seed": "int | None",
    "reference_spread": "bool", "reference_python": "Some", "reference_engine": "Some", "reference_timeout": "float",
    "capture": "Path | None", "server": "str | None", "token": "str | None", "profile": "str", "side": "str",
    "dtype": "Mapping[str, str] | Some", "layer_info": "Path", "frame": "int", "map": "Path",
    "layout": "Literal['NCHW', 'NHWC'] | None", "seed": "int", "description": "Path | None",
    "roi": "Mapping[str, Sequence[int]] | Some", "task": "str | None", "labels": "Path | None",
    "decoder": "str | None", "task_metric": "str | None", "timeout": "float", "user": "str | None",
    "ssh_config": "Path | None", "ssh_backend": "Literal['paramiko', 'openssh'] | None",
    "accept_new_host_key": "bool", "wait": "float | None", "python": "str | None", "provider": "Some",
    "runner": "str | None", "runtime": "str | None", "runner_option": "Some", "compare_digits": "int | None",
    "dump_all_nodes_results": "bool | None", "rule": "str | None", "gate": "Some", "atol": "float | None",
    "rtol": "float | None", "min_cosine": "float | None", "min_sqnr": "float | None", "min_euclid": "float | None",
    "max_rmse": "float | None", "max_lsb": "int | None", "criteria": "Some", "nan_equal": "bool",
    "relax_board": "bool", "strict": "bool", "fact": "Mapping[str, str] | Some", "steps": "int | None",
    "feed": "str | None", "decode": "Some", "from_snapshot": "Path", "snapshot": "str | None",
}, total=False)

TriageOptions = TypedDict("TriageOptions", {
    "stages": "Some | None", "run_sim": "bool | str", "reference": "str", "simulator": "Some",
    "app_input": "Path | None", "app_output": "Path | None", "loss": "Literal['auto', 'always', 'never']",
    "shape": "Shapes", "allow_other_model": "bool", "explain": "float", "repeat": "int", "reduce": "Path | None",
    "arithmetic": "Path", "build_cmd": "str | None", "capture": "Path | None", "profile": "str", "side": "str",
    "dtype": "Mapping[str, str] | Some", "layer_info": "Path", "frame": "int", "map": "Path",
    "layout": "Literal['NCHW', 'NHWC'] | None", "reference_engine": "Some", "reference_python": "Some",
    "reference_timeout": "float", "seed": "int", "description": "Path | None",
    "roi": "Mapping[str, Sequence[int]] | Some", "timeout": "float", "user": "str | None",
    "ssh_config": "Path | None", "ssh_backend": "Literal['paramiko', 'openssh'] | None",
    "accept_new_host_key": "bool", "wait": "float | None", "python": "str | None", "provider": "Some",
    "runner": "str | None", "runtime": "str | None", "runner_option": "Some", "compare_digits": "int | None",
    "dump_all_nodes_results": "bool | None", "rule": "str | None", "gate": "Some", "atol": "float | None",
    "rtol": "float | None", "min_cosine": "float | None", "min_sqnr": "float | None", "min_euclid": "float | None",
    "max_rmse": "float | None", "max_lsb": "int | None", "criteria": "Some", "nan_equal": "bool",
    "relax_board": "bool", "strict": "bool", "fact": "Mapping[str, str] | Some", "steps": "int | None",
    "feed": "str | None", "decode": "Some", "from_snapshot": "Path",
}, total=False)

CompileOptions = TypedDict("CompileOptions", {
    "integer_onnx": "Path | None", "rounding": "str", "arithmetic": "Path | None", "align": "int", "shape": "Shapes",
    "no_fuse": "bool", "strip_io_quant": "bool", "input": "Mapping[str, str] | Some", "description": "Path | None",
    "no_host": "bool", "check": "bool",
}, total=False)

QuantizeOptions = TypedDict("QuantizeOptions", {
    "stated": "Some", "engine": "str", "scheme": "Literal['u8s8', 's8s8', 'u8u8', 's16s8']",
    "method": "Literal['minmax', 'entropy', 'percentile']", "per_tensor": "bool", "float": "Some", "int16": "Some",
    "shape": "Shapes", "seed": "int", "description": "Path | None", "roi": "Mapping[str, Sequence[int]] | Some",
}, total=False)

CompareOptions = TypedDict("CompareOptions", {
    "model": "Path | None", "quantization": "Some", "shape": "Shapes", "profile": "str", "profile_a": "str",
    "profile_b": "str", "dtype": "Mapping[str, str] | Some", "layer_info": "Path", "side": "str", "side_a": "str",
    "side_b": "str", "frame": "int", "map": "Path", "layout": "Literal['NCHW', 'NHWC'] | None",
    "description": "Path | None", "arithmetic": "Path", "outputs_only": "bool", "compare_digits": "int | None",
    "dump_all_nodes_results": "bool | None", "rule": "str | None", "gate": "Some", "atol": "float | None",
    "rtol": "float | None", "min_cosine": "float | None", "min_sqnr": "float | None", "min_euclid": "float | None",
    "max_rmse": "float | None", "max_lsb": "int | None", "criteria": "Some", "nan_equal": "bool",
    "relax_board": "bool", "strict": "bool", "fact": "Mapping[str, str] | Some",
}, total=False)

ReplayOptions = TypedDict("ReplayOptions", {
    "dump": "Path | None", "model": "Some | None", "rerun": "Some | None", "board": "str | None", "runtime": "str",
    "run_sim": "bool", "timeout": "float", "user": "str | None", "ssh_config": "Path | None",
    "ssh_backend": "Literal['paramiko', 'openssh'] | None", "accept_new_host_key": "bool", "wait": "float | None",
    "python": "str | None", "provider": "Some", "compare_digits": "int | None",
    "dump_all_nodes_results": "bool | None", "rule": "str | None", "gate": "Some", "atol": "float | None",
    "rtol": "float | None", "min_cosine": "float | None", "min_sqnr": "float | None", "min_euclid": "float | None",
    "max_rmse": "float | None", "max_lsb": "int | None", "criteria": "Some", "nan_equal": "bool",
    "relax_board": "bool", "strict": "bool", "fact": "Mapping[str, str] | Some",
}, total=False)

InputsDiffOptions = TypedDict("InputsDiffOptions", {
    "seconds": "float", "description": "Path | None", "model": "Path | None", "name": "str | None",
    "format": "str | None", "size": "str | None", "train": "str | None", "mode": "str | None", "range": "str | None",
    "siting": "str | None", "colour_rounding": "str | None", "library": "str | None", "interpolation": "str | None",
    "resize_dtype": "str | None", "fit": "str | None", "roi": "str | None", "source": "str | None",
    "fill": "str | None", "mean": "str | None", "scale": "str | None", "std": "str | None",
    "resize_order": "str | None", "quantize": "str | None", "quantize_dtype": "str | None", "rounding": "str | None",
    "layout": "str | None", "stride": "str | None", "width_align": "str | None", "height_align": "str | None",
    "innermost_align": "str | None", "buffer_align": "str | None", "profile": "str | None",
}, total=False)

OutputsDiffOptions = TypedDict("OutputsDiffOptions", {
    "decoder": "str | None", "description": "Path | None", "output": "Mapping[str, str] | Some",
    "outputs": "Some | None", "written": "str | None", "side": "str", "frame": "int", "seconds": "float",
}, total=False)
