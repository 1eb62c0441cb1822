"""The request for triage."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from qverify.capture.reader import Capture
from qverify.compare.options import Options
from qverify.inputs.sources import InputRequest
from qverify.sequences.sequence_request import SequenceRequest
from qverify.session.request import BoardDump, RequestedEngine
from qverify.triage.ladder import RungGate


@dataclass(frozen=True, slots=True)
class TriageRequest:
    """The options of one run of triage.

    Attributes:
        models: paths of -m; with a capture, further files.
        stages: the stages in order, paths and STAGE_WORDS; [] for the default order of -m.
        board: address of the board, None without one.
        run_sim: run the simulator.
        run_reference, simulators: as in Request.
        inputs: the inputs.
        gates: the gates that the user gave, by `A~B`.
        app_input, app_output: paths of what the application fed and read, for one frame.
        loss: when to measure the loss of tensors quantized one at a time.
        deadline_s: time limit of each reply of the board.
        shapes: shapes of dynamic inputs, by name.
        allow_other_model: accept a model.bin that was compiled from another ONNX.
        arithmetic: file or name of the arithmetic that the board is stated to have, "" for none.
        reach: options of the board's address that were given separately.
        runner: what runs on the board, as in Request.
        explain_s: seconds for testing known faults at the nodes where the board is blamed.
        repeat: number of runs of the board on the same inputs; it runs at least twice if it fails.
        options: how the main job judges the frames; of a capture, options that are not set are those of its run.
        capture: an opened capture, which replaces models, inputs and board; None to run a board.
        keep: folder for a capture of this run, None for none.
        build: command that builds the runner's {model} from {onnx}, to locate the failing node by bisection.
        sequence: a sequence, of which the first wrong step is triaged; None for independent frames.
        dump: the dump in the board's place and how it is read, None without one.
        engine: the engine that runs the last ONNX as the reference; there is then no simulator.
    """

    models: list[str]
    _: KW_ONLY
    stages: list[str] = field(default_factory=list)
    board: str | None = None
    run_sim: bool = True
    run_reference: bool = True
    simulators: tuple[str, ...] = ()
    inputs: InputRequest = field(default_factory=InputRequest)
    gates: dict[str, RungGate] = field(default_factory=dict)
    app_input: str | None = None
    app_output: str | None = None
    loss: Literal["auto", "always", "never"] = "auto"
    deadline_s: float = 120.0
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    allow_other_model: bool = False
    arithmetic: str = ""
    reach: dict[str, str] = field(default_factory=dict)
    runner: tuple[tuple[str, str], ...] = ()
    explain_s: float = 20.0
    repeat: int = 1
    options: Options = field(default_factory=Options)
    capture: Capture | None = None
    keep: str | None = None
    build: str | None = None
    sequence: SequenceRequest | None = None
    dump: BoardDump | None = None
    engine: RequestedEngine = field(default_factory=RequestedEngine)
