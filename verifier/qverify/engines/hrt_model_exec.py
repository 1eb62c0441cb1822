"""Horizon, D-Robotics: `hrt_model_exec` on the board: model_info, infer and perf, with the options that its own help
lists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from qverify.engines import CommandReply, Options, RunnerInput, RunnerPlan, RunnerRequest, option
from qverify.errors import BoardError, UsageError
from qverify.plural import count
from qverify.vendor_files.vendor_dump import spelled_loosely

WANTED = "Horizon / D-Robotics: hrt_model_exec infer (and perf) of a model.bin or .hbm"
CHECKED = (
    "drives the tool as its public documents and independent scripts do; checked against a stand-in, not on a board"
)
PASSED_ON = {  # options of the tool that are passed on as they are
    "model_name": "which model of a packed file",
    "core_id": "0 any core, 1 core0, 2 core1",
    "roi_infer": "true for resizer inputs, with roi",
    "roi": "'2,4,123,125;6,8,111,113'",
    "frame_count": "frames of infer; of perf with perf=1",
    "dump_intermediate": "0, 1 (bin), 2 (bin and txt), 3 (valid data)  [default: 1 with -r True]",
    "dump_precision": "decimals of floats in .txt files",
    "dump_format": "bin or txt  [default: bin]",
    "dump_txt_axis": "where lines of .txt files break",
    "hybrid_dequantize_process": "true: the tool dequantizes integer outputs, into .txt files",
    "dequantize_process": "its name in newer builds",
    "remove_padding_process": "true: valid data only (newer builds)",
    "enable_cls_post_process": "true: it prints the top classes",
    "input_stride": "strides of the inputs (newer builds)",
    "input_valid_shape": "valid shapes of dynamic inputs (newer builds)",
    "input_img_properties": "Y or UV of each image input (J6)",
}
PERF_ONLY = {
    "thread_num": "perf: threads, 1 to 8",
    "perf_time": "perf: minutes, instead of frame_count",
    "profile_path": "perf: folder of profiler.log and profiler.csv; {out} to fetch them",
}
OPTIONS = {
    "program": "the tool on the board  [default: hrt_model_exec]",
    "perf": "1: measure with `perf` after `infer`; its average latency is reported",
    **PASSED_ON,
    **PERF_ONLY,
}
TWINS = {"hybrid_dequantize_process": "dequantize_process", "dequantize_process": "hybrid_dequantize_process"}
SUCCESS, FAILURE = "infer success", r"error code: ?-\d+|load hbm failed|iova addr not equal"
INFER_TIME = r"Infer time: *(?P<ms>[0-9.]+) *ms"
PERF_TIME = r"Average\s+latency\s+is: *(?P<ms>[0-9.]+) *ms"
INFO_FILE = "hrt_model_info.txt"
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FLAG = re.compile(r"(?<![\w-])--?([a-z][a-z_]{2,40})\b")
_MODEL = re.compile(r"^\[model name\]: *(.+?) *$", re.MULTILINE)
_INPUT = re.compile(r"^input\[(\d{1,6})\]: *$(.*?)(?=^(?:in|out)put\[|\Z)", re.MULTILINE | re.DOTALL)


def files(options: Options) -> Mapping[str, bytes]:
    """Returns {}: the tool is on the board already."""
    return {}


def plan(request: RunnerRequest) -> RunnerPlan:
    """Returns a plan with the option names that this build of the tool has. Raises BoardError if the board lacks the
    tool or the tool cannot open the model, and UsageError if the tool lacks an option or its inputs have other
    sizes."""
    options = request.options
    program = " ".join(w for w in (request.emulator, shlex.quote(option(options, "program", "hrt_model_exec"))) if w)
    flags = _flags(request.ask(f"{program} -h"), program)
    words = _passed_on(request, flags)
    info = _model_info(request.ask(f"{program} model_info --model_file={shlex.quote(request.model)}"), options)
    inputs = _order_inputs(info.inputs, request.inputs)
    model = [f"--model_file={request.model}", *([f"--model_name={info.model}"] if info.packed else [])]
    infer = [*model, f"--input_file={','.join(i.path for i in inputs)}", "--enable_dump=true"]
    infer += [f"--dump_path={request.out}"] if "dump_path" in flags else []
    perf = option(options, "perf", "0").lower() in ("1", "true", "yes")
    for name, value in words.items():
        infer += [f"--{name}={value}"] if name not in PERF_ONLY and not (perf and name == "frame_count") else []
    line = f"{program} infer {shlex.join(infer)}"
    if perf:
        measured = ("core_id", "frame_count", *PERF_ONLY)
        perf_options = [f"--{name}={value}" for name, value in words.items() if name in measured]
        line += f" && {program} perf {shlex.join([*model, infer[len(model)], *perf_options])}"
    notes = () if info.described else ("hrt_model_exec: this build's model_info names no tensors: files go by index",)
    return RunnerPlan(
        line,
        success=SUCCESS,
        failure=FAILURE,
        timing=PERF_TIME if perf else INFER_TIME,
        profile="horizon",
        engine="hrt_model_exec",
        version=info.version,
        texts={INFO_FILE: info.text} if info.described else {},
        notes=notes,
    )


def _flags(reply: CommandReply, program: str) -> set[str]:
    """Returns the names of the options in the tool's help. Its exit status is not documented, and ignored."""
    flags = set(_FLAG.findall(_COLOUR.sub("", reply.text)))
    if not {"model_file", "input_file", "enable_dump"} <= flags:
        first_line = next((line for line in reply.text.splitlines() if line.strip()), "nothing")
        raise BoardError(
            f"{program} -h on the board: no help of hrt_model_exec (status {reply.status}: {first_line[:200]}); "
            "give its path: --runner-option program=/usr/hobot/bin/hrt_model_exec"
        )
    return flags


def _passed_on(request: RunnerRequest, flags: set[str]) -> dict[str, str]:
    """Returns the tool's options and values: those of the user, in the spelling of this build, and those that -r
    requires."""
    values = {n: option(request.options, n) for n in (*PASSED_ON, *PERF_ONLY) if n in request.options}
    values.pop("model_name", None)
    if request.dump_all:
        values.setdefault("dump_intermediate", "1")
    words = {}
    for name, value in values.items():
        spelling = name if name in flags else TWINS.get(name, name)
        if spelling not in flags:
            raise UsageError(f"--runner-option {name}: the hrt_model_exec of this board has no such option (its -h)")
        words[spelling] = value.replace("{out}", request.out)
    if "hybrid_dequantize_process" in words:  # the tool writes dequantized values into .txt files only
        words.setdefault("dump_format", "txt")
    return words


@dataclass(frozen=True, slots=True)
class _ModelInfo:
    """The output of model_info on one model.

    Attributes:
        model: name of the model.
        packed: True if the file contains several models.
        described: True if the text names tensors, so that a profile can read it.
        text: the text on this model alone.
        version: version of the runtime, or "".
        inputs: name and size in bytes of each input; the size is None if it is not stated.
    """

    model: str
    packed: bool
    described: bool
    text: str
    version: str
    inputs: list[tuple[str, int | None]]


def _model_info(reply: CommandReply, options: Options) -> _ModelInfo:
    text = _COLOUR.sub("", reply.text)
    models = list(_MODEL.finditer(text))
    if not models:
        last_line = next((line for line in reversed(text.splitlines()) if line.strip()), "nothing")
        raise BoardError(
            f"hrt_model_exec model_info: the board cannot open the model (status {reply.status}): {last_line[:200]}"
        )
    names = [m[1] for m in models]
    chosen = option(options, "model_name", names[0] if len(names) == 1 else "")
    if names.count(chosen) != 1:
        raise UsageError(
            f"the board's model file has {count(len(names), 'model')}: {', '.join(names[:5])}; "
            f"give --runner-option model_name={names[0]}"
        )
    index = names.index(chosen)
    end = models[index + 1].start() if index + 1 < len(models) else len(text)
    section = text[models[index].start() : end]
    inputs = [(_field(body, "name"), _size(_field(body, "aligned byte size"))) for _, body in _INPUT.findall(section)]
    described = "\noutput[0]" in section and all(_field(part, "name") for part in section.split("\noutput[")[1:])
    version = re.search(r"Runtime version = (.+)", text)
    head = text[: models[0].start()]
    return _ModelInfo(
        chosen, len(names) > 1, described, f"{head}{section}", version[1].strip() if version else "", inputs
    )


def _field(body: str, key: str) -> str:
    match = re.search(rf"^{key}: *(.*?) *$", body, re.MULTILINE)
    return match[1] if match else ""


def _size(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[1-9]\d{0,12}", text) else None


def _order_inputs(stated: list[tuple[str, int | None]], inputs: tuple[RunnerInput, ...]) -> list[RunnerInput]:
    """Returns the inputs in the order of the board's model. Raises UsageError if they cannot be matched for certain:
    the tool assigns files by position, and may accept a file of the wrong size."""
    if stated and len(stated) != len(inputs):
        raise UsageError(
            f"the board's model has {count(len(stated), 'input')} ({', '.join(n or '?' for n, _ in stated[:4])}), the ONNX "
            f"{len(inputs)}; describe the board's inputs (qverify inputs), or give the ONNX that it was built from"
        )
    ordered = list(inputs)
    if len(inputs) > 1:
        by_name = {spelled_loosely(i.spec.name): i for i in inputs}
        missing = [n for n, _ in stated if spelled_loosely(n) not in by_name]
        if missing or not stated or len(by_name) != len(inputs):
            raise UsageError(
                f"the board's model calls its inputs {', '.join(n or '?' for n, _ in stated)}, the ONNX "
                f"{', '.join(i.spec.name for i in inputs)}: which is which is not certain"
            )
        ordered = [by_name[spelled_loosely(n)] for n, _ in stated]
    for (name, size), prepared in zip(stated, ordered, strict=False):
        if size is not None and size != prepared.spec.size_bytes:
            raise UsageError(
                f"input {prepared.spec.name}: {prepared.spec.size_bytes} bytes prepared, but input {name or '0'} of the board's model takes "
                f"{size} (model_info: aligned byte size); describe it with `qverify inputs`, as for nv12"
            )
    return ordered
