"""The options of the functions, which have the names of the commands' options. An option that is left out has the
command's default, which the function's signature shows."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

import numpy.typing as npt

Path = str | os.PathLike[str]
Some = str | Sequence[str]  # one value, or several for an option that may be repeated
Shapes = Mapping[str, Sequence[int]] | Some
Inputs = Path | Mapping[str, Path] | npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]
Progress = Callable[[str, int, int], None]
Function = TypeVar("Function", bound=Callable[..., Any])


class RunnerOptions(TypedDict, total=False):
    """Options of a board that runs something other than qvrt."""

    runner: str | None
    runner_option: Some


class LinkOptions(TypedDict, total=False):
    """Options of the link to a board: login, timeouts, runtime."""

    timeout: float
    user: str | None
    ssh_config: Path | None
    ssh_backend: Literal["paramiko", "openssh"] | None
    accept_new_host_key: bool
    wait: float | None
    python: str | None
    provider: Some
    runtime: str | None


class JudgingOptions(TypedDict, total=False):
    """Options that determine what counts as equal."""

    compare_digits: int | None
    dump_all_nodes_results: bool | None
    rule: str | None
    gate: Some
    atol: float | None
    rtol: float | None
    min_cosine: float | None
    max_rmse: float | None
    min_sqnr: float | None
    min_euclid: float | None
    max_lsb: int | None
    criteria: Some
    nan_equal: bool
    relax_board: bool
    strict: bool


class InputOptions(TypedDict, total=False):
    """Options that determine how files become inputs."""

    seed: int
    description: Path | None
    roi: Mapping[str, Sequence[int]] | Some


class VerifyOptions(LinkOptions, RunnerOptions, JudgingOptions, InputOptions, total=False):
    """The options of verify()."""

    run_sim: bool | str
    reference: str
    simulator: Some
    quantization: Some
    shape: Shapes
    pull: Literal["differ", "all"]
    arithmetic: Path | str
    allow_other_model: bool
    signature: str
    no_host: bool
    repeat: int
    paranoid: bool
    spot_seed: int | None
    reference_spread: bool
    reference_engine: Some
    reference_python: Some
    reference_timeout: float
    capture: Path | None
    labels: Path | None
    task_metric: str | None
    steps: int | None
    feed: str | None
    decode: Some
    profile: str
    side: str
    dtype: Mapping[str, str] | Some
    layer_info: Path
    frame: int
    map: Path
    server: str | None
    token: str | None


class TriageOptions(LinkOptions, RunnerOptions, JudgingOptions, InputOptions, total=False):
    """The options of triage(). A gate may be of one rung (`A~B=GATE`), or of the main job."""

    stages: Some | None
    run_sim: bool | str
    reference: str
    simulator: Some
    app_input: Path | None
    app_output: Path | None
    loss: Literal["auto", "always", "never"]
    shape: Shapes
    arithmetic: Path | str
    allow_other_model: bool
    explain: float
    repeat: int
    reference_engine: Some
    reference_python: Some
    reference_timeout: float
    capture: Path | None
    reduce: Path | None
    build_cmd: str | None
    steps: int | None
    feed: str | None
    decode: Some


class CompareOptions(JudgingOptions, total=False):
    """The options of compare()."""

    model: Path | None
    profile: str
    profile_a: str
    profile_b: str
    dtype: Mapping[str, str] | Some
    layer_info: Path
    side: str
    side_a: str
    side_b: str
    frame: int
    arithmetic: Path | str
    quantization: Some
    map: Path
    outputs_only: bool


class QuantizeOptions(InputOptions, total=False):
    """The options of quantize(). stated: --from. engine: --with."""

    stated: Some
    engine: str
    scheme: Literal["u8s8", "s8s8", "u8u8", "s16s8"]
    method: Literal["minmax", "entropy", "percentile"]
    per_tensor: bool
    float: Some
    int16: Some
    shape: Shapes


class InputsDiffOptions(TypedDict, total=False):
    """The options of inputs_diff(): how long to search, and the description of the intended bytes, as the command takes it."""

    seconds: float
    description: Path | None
    model: Path | None
    name: str
    format: str
    size: str
    train: str
    mode: str
    range: str
    siting: str
    colour_rounding: str
    library: str
    interpolation: str
    resize_dtype: str
    fit: str
    roi: str
    source: str
    fill: str
    mean: str
    scale: str
    std: str
    resize_order: str
    quantize: str
    quantize_dtype: str
    rounding: str
    layout: str
    stride: str
    width_align: str
    height_align: str
    innermost_align: str
    buffer_align: str
    profile: str


class ReplayOptions(LinkOptions, JudgingOptions, total=False):
    """The options of replay()."""

    dump: Path | None
    model: Some | None
    rerun: Some | None
    board: str | None
    run_sim: bool


class CompileOptions(TypedDict, total=False):
    """The options of compile()."""

    integer_onnx: Path | None
    rounding: str
    arithmetic: Path | str
    align: int
    shape: Shapes
    no_fuse: bool
    strip_io_quant: bool
    input: Mapping[str, str] | Some
    description: Path | None
    no_host: bool
    check: bool


def with_options(name: str, options: type) -> Callable[[Function], Function]:
    """Returns a decorator that adds every option to the function's signature, with the command's default. name: of the
    command. options: the TypedDict of the function's options."""

    def decorate(function: Function) -> Function:
        from qverify.cli.python_options import python_options

        declared = python_options(name)
        hints = {key: getattr(hint, "__forward_arg__", hint) for key, hint in options.__annotations__.items()}
        signature = inspect.signature(function)
        explicit = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        added = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=_default(declared[key]), annotation=hint)
            for key, hint in hints.items()
        ]
        complete = signature.replace(parameters=[*explicit, *added])
        function.__signature__ = complete  # type: ignore[attr-defined]
        return function

    return decorate


def _default(option: Any) -> Any:
    """Returns the value that the command line uses for an option that is not given."""
    if option.multiple:
        return ()
    if option.is_flag:
        return bool(option.secondary_opts) and option.default is True
    return option.default if isinstance(option.default, (bool, int, float, str)) else None
