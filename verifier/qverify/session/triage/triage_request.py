"""What one triage was asked to do."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from qverify.capture.reader import Capture
from qverify.inputs.sources import InputRequest
from qverify.session.request import RequestedEngine
from qverify.triage.ladder import RungGate


@dataclass(frozen=True, slots=True)
class TriageRequest:
    """What to triage, and how. gates: by `A~B`. loss: when to quantize tensors one at a time. app_input, app_output:
    what the application fed and got (of one frame). explain_s: seconds for testing known faults at a blamed node of the
    board. repeat: runs of the board on the same inputs; at least two where it fails. relax_board: allows a gate of
    simulator ~ board other than equal bits.
    capture: takes the place of its models, its inputs and its board; models are then files beside it. keep: a folder in
    which everything the run saw is kept. build: a command that makes the runner's model of {onnx}, to locate what fails.
    drawings: tensors that differ and inputs are drawn, for a page. engine: runs the last ONNX as the reference, without a
    simulator."""

    models: list[str]
    _: KW_ONLY
    stages: list[str] = field(default_factory=list)
    board: str | None = None
    run_sim: bool = True
    inputs: InputRequest = field(default_factory=InputRequest)
    gates: dict[str, RungGate] = field(default_factory=dict)
    app_input: str | None = None
    app_output: str | None = None
    loss: Literal["auto", "always", "never"] = "auto"
    deadline_s: float = 120.0
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    allow_other_model: bool = False
    reach: dict[str, str] = field(default_factory=dict)
    runner: tuple[tuple[str, str], ...] = ()  # what runs on the board, as for Request
    explain_s: float = 20.0
    repeat: int = 1
    relax_board: bool = False
    capture: Capture | None = None
    keep: str | None = None
    build: str | None = None
    drawings: bool = False
    engine: RequestedEngine = field(default_factory=RequestedEngine)
