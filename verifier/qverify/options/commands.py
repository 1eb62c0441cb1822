"""Which command has which options: arguments first, then the options in the order of the reference page. An option that a
command explains or defaults in its own way is that of the table with `but`."""

from __future__ import annotations

from qverify.options import board, dumps, engines, inputs, judging, models, output, sequences, tools
from qverify.options.option import Option

GROUPS = (
    models,
    dumps,
    inputs,
    sequences,
    board,
    engines,
    judging,
    output,
)  # of a grouped help, each by its table's name

INPUTS = (inputs.FILES, inputs.SEED, inputs.DESCRIPTION, inputs.ROI)
TASKS = (inputs.TASK, inputs.LABELS, inputs.DECODER, inputs.TASK_METRIC)
SEQUENCES = (sequences.STEPS, sequences.FEED, sequences.DECODE, sequences.FROM_SNAPSHOT)
IN_PLACE = (dumps.PROFILE, dumps.SIDE, dumps.DTYPE, dumps.LAYER_INFO, dumps.FRAME, dumps.MAP, dumps.LAYOUT)
SIDES = (engines.RUN_SIM, engines.REFERENCE, engines.SIMULATOR)
LINK = (
    *(board.TIMEOUT, board.USER, board.SSH_CONFIG, board.SSH_BACKEND, board.ACCEPT_NEW_HOST_KEY, board.WAIT),
    *(engines.PYTHON, engines.PROVIDER),
)
ONE_BOARD = board.BOARD.but(required=True)
RUNNERS = (engines.RUNNER, engines.RUNTIME, engines.RUNNER_OPTION)
ENGINE = (
    engines.REFERENCE_ENGINE.but(help="what runs an ONNX with a vendor's own operators, as in the main job"),
    engines.REFERENCE_PYTHON.but(help="the Python that runs the reference engine"),
    engines.REFERENCE_TIMEOUT.but(help="seconds for each run of the reference engine"),
)
VIEW = (output.QUIET, output.VERBOSE, output.ALL, output.TOP)
REPORT = (output.REPORT, *(output.SHORTS[name] for name in ("json", "html", "junit", "csv", "markdown")))
DRAWN_REPORT = (output.REPORT, output.PLOTS, *REPORT[1:])


def link_with(timeout_s: float, runtime: bool = True) -> tuple[Option, ...]:
    """Returns the options of a link with another default of --timeout. runtime: with what qverify's own worker runs."""
    own = (engines.OWN_RUNTIME,) if runtime else ()
    return (board.TIMEOUT.but(default=timeout_s), *LINK[1:], *own)


def judging_with(gate: Option = judging.GATE) -> tuple[Option, ...]:
    """Returns the options of a command that judges. gate: its --gate."""
    before = (judging.COMPARE_DIGITS, judging.DUMP_ALL, judging.RULE_OPTION, gate, *judging.LIMITS.values())
    return (*before, judging.CRITERIA, judging.NAN_EQUAL, judging.RELAX_BOARD, judging.STRICT, judging.FACT)


COMMANDS: dict[str, tuple[Option, ...]] = {
    "verify": (
        *(models.MODELS, board.BOARDS, board.NO_BOARD, *SIDES, models.QUANTIZATION, models.SHAPE, models.SIGNATURE),
        *(board.PULL, models.ARITHMETIC, models.ALLOW_OTHER_MODEL, models.NO_HOST, board.REPEAT, board.CHECK),
        *(board.PARANOID, board.SPOT_SEED, engines.REFERENCE_SPREAD, engines.REFERENCE_PYTHON),
        *(engines.REFERENCE_ENGINE, engines.REFERENCE_TIMEOUT, output.CAPTURE, board.SERVER, board.TOKEN, *IN_PLACE),
        *(
            output.NPZ,
            *VIEW,
            *DRAWN_REPORT,
            *INPUTS,
            *TASKS,
            *LINK,
            *RUNNERS,
            *judging_with(),
            *SEQUENCES,
            sequences.SNAPSHOT,
        ),
    ),
    "triage": (
        tools.CAPTURE_FOLDER,
        models.MODELS.but(
            help="comma list: float.onnx, quant.onnx, model.bin, a dump of another runtime (folder or .npz); may be repeated",
            required=False,
        ),
        *(models.STAGES, board.BOARD, *SIDES, inputs.APP_INPUT, inputs.APP_OUTPUT, judging.LOSS),
        output.TOP.but(help="tensors listed, the most sensitive first", default=10, shown=True, metavar=None),
        output.ALL.but(help="list every tensor and every experiment"),
        *(output.QUIET, models.ONE_SHAPE, models.ALLOW_OTHER_MODEL, judging.EXPLAIN),
        board.REPEAT.but(
            help="runs of the board on the same inputs; at least two where it fails, before anything is concluded"
        ),
        judging.REDUCE,
        models.ARITHMETIC.but(help="how the board rounds, as in the main job"),
        engines.BUILD_CMD,
        output.CAPTURE.but(help="keep everything the run saw, experiments included, to triage it again", name="keep"),
        *IN_PLACE,
        *(*ENGINE, *DRAWN_REPORT, *INPUTS, *LINK, *RUNNERS),
        *judging_with(judging.RUNG_GATE),
        *SEQUENCES,
    ),
    "compare": (
        *(tools.A_DUMP, tools.B_DUMP),
        Option(
            "-m --model",
            "quant.onnx, model.bin or .tflite: layout of raw dumps, scales, names; recomputes nodes",
            hint="Path | None",
        ),
        *(models.QUANTIZATION, models.SHAPE.but(help="dims of a dynamic input of -m")),
        dumps.PROFILE.but(help="vendor profile of both dumps  [default: recognised by content]"),
        *(dumps.PROFILE_A, dumps.PROFILE_B, dumps.DTYPE, dumps.LAYER_INFO),
        dumps.SIDE.but(
            help="captures and --npz: reference, simulator or board  [default: board]; rockchip, axera: a folder; stm32: m or c",
            metavar=None,
        ),
        *(dumps.SIDE_A, dumps.SIDE_B, dumps.FRAME, dumps.MAP, dumps.LAYOUT),
        inputs.DESCRIPTION.but(
            help="TOML or JSON with [outputs.NAME]: roles of its channels, which --gate NAME.ROLE:METRIC judges"
        ),
        models.ARITHMETIC.but(
            help="how the nodes of -m are computed (qverify identify), in both dumps: when recomputed, every bit must agree"
        ),
        *(dumps.OUTPUTS_ONLY, *VIEW, *DRAWN_REPORT, *judging_with()),
    ),
    "replay": (
        *(tools.FOLDER, tools.DUMP),
        Option(
            "-m --model",
            "bundle: the quantized ONNX, if it was packed without; capture: used instead of its models",
            name="models",
            listed=True,
        ),
        tools.RERUN,
        board.BOARD.but(help="capture: run this board on its inputs, instead of the captured one"),
        engines.RUNTIME.but(
            help="capture: what ran on its board; with a runner's name its values are judged, not its bytes",
            default="qvrt",
            metavar="NAME",
            shown=True,
        ),
        engines.RUN_SIM.but(help="also judge the simulator", kind="boolean", metavar=None),
        *(output.NPZ, *VIEW, *DRAWN_REPORT, *LINK, *judging_with()),
    ),
    "compile": (
        *(tools.MODEL_FILE, tools.OUTPUT, tools.LIST, tools.INTEGER_ONNX, tools.ROUNDING),
        models.ARITHMETIC.but(
            help="the forms of a board by op, which `qverify identify` learned: a TOML file, or the name of a shipped one",
            default=None,
            metavar="FILE",
        ),
        *(tools.ALIGN, models.ONE_SHAPE, tools.NO_FUSE, tools.STRIP_IO_QUANT, tools.INPUT),
        inputs.DESCRIPTION.but(help="TOML with [inputs.NAME] tables; --input overrides it"),
        models.NO_HOST.but(
            help="refuse nodes that no kernel serves; without it the host computes them, and they are named as not verified"
        ),
        tools.COMPILE_CHECK,
    ),
    "quantize": (
        tools.MODEL_FILE,
        tools.OUTPUT.but(help="quantized ONNX to write", required=True),
        *(tools.FROM, tools.WITH, tools.SCHEME, tools.METHOD, tools.PER_TENSOR, tools.FLOAT),
        tools.INT16,
        *(models.PLAIN_SHAPE, *INPUTS),
    ),
    "inputs_diff": (
        *(tools.A_INPUTS, tools.B_INPUTS, tools.SECONDS),
        tools.DOCUMENT.but(help="write the result as qverify.inputs_diff/1; - for stdout"),
        *tools.DESCRIPTION,
    ),
    "outputs_diff": (
        *(tools.OUTPUTS_REFERENCE, tools.DEVICE, tools.OUTPUTS_DECODER),
        inputs.DESCRIPTION.but(
            help="TOML or JSON with [decoder], [outputs.NAME] (scale, zero_point); options override it"
        ),
        *(tools.QUANTIZED_OUTPUT, tools.OUTPUTS, tools.WRITTEN),
        dumps.SIDE.but(help="of a capture or .npz of --npz: reference, simulator or board", metavar=None),
        dumps.FRAME.but(help="of a capture", shown=False),
        tools.SECONDS,
        tools.DOCUMENT.but(help="write the result as qverify.outputs_diff/1; - for stdout"),
    ),
    "soak": (
        Option("-m --model", "comma list: quant.onnx, model.bin", name="models", required=True),
        *(ONE_BOARD, tools.FOR, tools.EVERY, tools.LOG, *ENGINE),
        judging.GATE.but(
            help="with --reference-engine: what the first run's final outputs must satisfy, as in the main job"
        ),
        *(*INPUTS, *LINK, *RUNNERS),
    ),
    "baseline_save": (tools.BASELINE_FILE, tools.BASELINE_CAPTURE, tools.FIRMWARE, tools.TOOLCHAIN),
    "baseline_check": (
        *(tools.BASELINE_FILE, tools.BASELINE_CAPTURE, tools.FIRMWARE, tools.TOOLCHAIN),
        tools.DOCUMENT.but(help="write every change as JSON", name="json_path", metavar="OUT"),
    ),
}


def keywords(command: str) -> dict[str, Option]:
    """Returns the options of a command that callers in Python have, by keyword."""
    declared = (option for option in COMMANDS[command] if "api" in option.places)
    return {option.keyword: option for option in declared}


def grouped() -> dict[str, list[str]]:
    """Returns the flags of the options of a grouped help by title, in its order."""
    flags = dict[str, list[str]]()
    for table in GROUPS:
        rows = [v for value in vars(table).values() for v in (value.values() if isinstance(value, dict) else [value])]
        title = table.__name__.rpartition(".")[2].capitalize()
        flags[title] = list(dict.fromkeys(row.flag for row in rows if isinstance(row, Option)))
    return flags
