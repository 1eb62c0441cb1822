"""The request for the main job."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal

from qverify.compare.options import Options
from qverify.inputs.sources import InputRequest
from qverify.session.task.task_request import TaskRequest


@dataclass(frozen=True, slots=True)
class RequestedEngine:
    """The engine that runs an ONNX of unknown operators, as in Request. names: () for none."""

    names: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    timeout_s: float = 900.0


@dataclass(frozen=True, slots=True)
class Request:
    """The options of one run of the main job, which Job validates. deadline_s: for each answer of the board."""

    models: list[str]
    board: str | None = None
    run_sim: bool = True
    _: KW_ONLY
    inputs: InputRequest = field(default_factory=InputRequest)
    options: Options = field(default_factory=Options)
    deadline_s: float = 120.0
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    allow_other_model: bool = False
    host: bool = True  # nodes that no kernel serves are computed on the host, and named as not verified
    pull: Literal["differ", "all"] = "differ"
    reach: dict[str, str] = field(default_factory=dict)  # options of the board's address given beside it
    capture: str | None = None  # folder in which everything the run sees is stored
    repeat: int = 1  # runs of the board on the same inputs
    paranoid: bool = False  # every tensor is pulled, and the board also runs on other inputs
    spot_seed: int | None = None  # of the spot check and of those inputs; None: fresh in each run
    reference_spread: bool = False  # measure how far the reference's own settings differ
    reference_python: tuple[str, ...] = ()  # commands of other interpreters that take part in it
    runner: tuple[tuple[str, str], ...] = ()  # of --runner, --runtime, --runner-option; before those of the inventory
    reference_timeout_s: float = 900.0  # for each of their runs
    task: TaskRequest | None = None  # of --labels and --task-metric
    reference_engine: tuple[str, ...] = ()  # what runs an ONNX of unknown operators, in reference_python

    def with_engine(self, engine: RequestedEngine) -> Request:
        """Returns the request with this engine as the reference; the same where it names none."""
        if not engine.names:
            return self
        return replace(
            self,
            reference_engine=engine.names,
            reference_python=engine.python,
            reference_timeout_s=engine.timeout_s,
        )
