"""Engines: what computes as each side."""

from __future__ import annotations

from qverify_agents.worker import RUNTIMES

from qverify.options.option import REACHES, RUNS_CODE, Number, Option

ONNXRUNTIME = "onnxruntime"

RUN_SIM = Option(
    "--run-sim -s",
    "run the simulator (-s True|False), or an engine in its place (-s rknn)",
    "simulator",
    True,
    metavar="BOOLEAN|ENGINE",
    shown=True,
    engine=True,
    form="Run the simulator (-s)",
)
SIMULATOR = Option(
    "--simulator",
    "an engine on this host as a further side, such as a vendor's simulator: NAME or NAME,KEY=VALUE,..., where NAME is "
    "an engine (qverify boards runner list) or a table [engines.NAME] of boards.toml; may be repeated",
    name="simulators",
    many=True,
    metavar="ENGINE",
    engine=True,
)
REFERENCE = Option(
    "--reference",
    "what runs the quantized ONNX as the reference: onnxruntime, or an engine on this host in its place: NAME or "
    "NAME,KEY=VALUE,...",
    default=ONNXRUNTIME,
    metavar="ENGINE",
    shown=True,
    engine=True,
)
RUNTIME = Option(
    "--runtime",
    "what computes on the board: qvrt runs model.bin (default), onnxruntime the quantized ONNX, litert a .tflite, or "
    "another engine (qverify boards runner list); NAME or NAME,KEY=VALUE,...",
    metavar="ENGINE",
    job=REACHES,
)
OWN_RUNTIME = RUNTIME.but(
    help="what computes on the board: qvrt runs model.bin (default), onnxruntime the quantized ONNX, litert a .tflite",
    kind=("qvrt", *RUNTIMES),
    metavar=None,
)
RUNNER = Option(
    "--runner",
    "run this on the board, not qvrt: 'tool --model {model} --input {input} --out {out}' (docs: Run your own tool)",
    metavar="COMMAND",
    job=REACHES,
)
RUNNER_OPTION = Option(
    "--runner-option",
    "an option of the runner: success=, timing=, profile=, dtype=, environment=NAME=VALUE ...; may be repeated",
    many=True,
    metavar="KEY=VALUE",
    job=REACHES,
)
PYTHON = Option(
    "--python", "of the board: a Python with onnxruntime or LiteRT (default: python3)", metavar="COMMAND", job=REACHES
)
PROVIDER = Option(
    "--provider",
    "execution provider of the board's onnxruntime, best first; may be repeated",
    many=True,
    metavar="NAME[,KEY=VALUE]",
    job=REACHES,
)
BUILD_CMD = Option(
    "--build-cmd",
    "command that makes the board's {model} of {onnx}: on a board with a runner, locates the first node that goes wrong by "
    "bisection, with no dumps; with --reduce, builds the parts",
    name="build",
    metavar="COMMAND",
)
REFERENCE_ENGINE = Option(
    "--reference-engine",
    "what runs an ONNX with a vendor's own operators: lib:PATH (custom operators for onnxruntime; may be repeated), "
    "module:callable or FILE.py:callable, or onnxruntime, that of --reference-python",
    many=True,
    metavar="ENGINE",
    job=RUNS_CODE,
)
REFERENCE_PYTHON = Option(
    "--reference-python",
    "another Python with onnxruntime and numpy that takes part in --reference-spread, or runs --reference-engine, such as 'venv/bin/python' of an older "
    "onnxruntime, or ARM kernels (scripts/arm_reference of a clone makes them); may be repeated (or one, in QVERIFY_REFERENCE_PYTHON)",
    many=True,
    metavar="COMMAND",
    job=RUNS_CODE,
)
REFERENCE_TIMEOUT = Option(
    "--reference-timeout",
    "seconds for each run of --reference-python or --reference-engine",
    Number(0.1, 1e6),
    900.0,
    name="reference_timeout_s",
    shown=True,
    job=RUNS_CODE,
)
REFERENCE_SPREAD = Option(
    "--reference-spread",
    "also run the reference under other settings, and mark differences no larger than theirs",
    "flag",
)
