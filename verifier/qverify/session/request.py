"""The request for the main job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal

from qverify.compare.options import Options
from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest
from qverify.report.checks import CheckName
from qverify.sequences.sequence_request import SequenceRequest
from qverify.session.task.task_request import TaskRequest
from qverify.vendor_files.vendor_dump import ReadingOptions


@dataclass(frozen=True, slots=True)
class RequestedEngine:
    """The engine that the user chose to run an ONNX with operators unknown to qverify, as in Request. names: values of
    --reference-engine, () for none. python: values of --reference-python. timeout_s: limit of each run in seconds."""

    names: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    timeout_s: float = 900.0


@dataclass(frozen=True, slots=True)
class Request:
    """The options of one run of the main job, which Job validates."""

    models: list[str]  # paths of -m
    board: str | None = None  # address
    run_sim: bool = True  # run the simulator
    _: KW_ONLY
    inputs: InputRequest = field(default_factory=InputRequest)
    options: Options = field(default_factory=Options)
    deadline_s: float = 120.0  # limit of each reply of the board
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of dynamic inputs, by name
    allow_other_model: bool = False  # accept a model.bin that was compiled from another ONNX
    host: bool = True  # compute nodes without a kernel on the host, and report that they are not verified
    pull: Literal["differ", "all"] = "differ"  # tensors to pull: those whose digests differ, or all
    reach: dict[str, str] = field(default_factory=dict)  # options of the board's address that were given separately
    capture: str | None = None  # folder that stores everything the run sees
    repeat: int = 1  # number of runs of the board on the same inputs
    paranoid: bool = False  # pull every tensor, and run the board on other inputs as well
    spot_seed: int | None = None  # for the spot check and for those other inputs; None: a new one for each run
    reference_spread: bool = False  # measure how far the results of the reference's own settings differ
    reference_python: tuple[str, ...] = ()  # commands of other interpreters, for the spread or for reference_engine
    runner: tuple[tuple[str, str], ...] = ()  # --runner, --runtime, --runner-option; they override the inventory's
    reference_timeout_s: float = 900.0  # limit of each run of reference_python
    task: TaskRequest | None = None  # --labels and --task-metric
    arithmetic: str | None = ""  # file or name of the board's arithmetic; "": that of boards.toml; None: none
    quantization: tuple[str, ...] = ()  # files in which a vendor's toolkit states how it quantized the float ONNX of -m
    simulators: tuple[str, ...] = ()  # engines on this host that are further sides: NAME,KEY=VALUE,...
    run_reference: bool = (
        True  # run the quantized ONNX on onnxruntime; False: an engine of `simulators` is in its place
    )
    signature: str = ""  # of a .tflite alone; "" for its first
    reference_engine: tuple[str, ...] = ()  # runs an ONNX with operators unknown to qverify, in reference_python
    sequence: SequenceRequest | None = None  # --steps; None for independent frames
    checks: tuple[CheckName, ...] = ()  # --check: further runs of the board that must give the same bytes
    sweep: tuple[
        dict[str, tuple[int, ...]], ...
    ] = ()  # several shapes of --shape, each a network; () for `shapes` alone

    def with_engine(self, engine: RequestedEngine) -> Request:
        """Returns the request with this engine as the reference, or the same request if the engine names none."""
        if not engine.names:
            return self
        return replace(
            self,
            reference_engine=engine.names,
            reference_python=engine.python,
            reference_timeout_s=engine.timeout_s,
        )


@dataclass(frozen=True, slots=True)
class BoardDump:
    """A dump that stands in the board's place.

    Attributes:
        path: of its folder or file.
        profile: name of the vendor's profile; "" to recognise the format by its content.
        reading: how it is read.
        names: file of --map, which pairs its names with those of the model; "" for none.
    """

    path: str
    profile: str = ""
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    names: str = ""


def is_dump(path: str) -> bool:
    """Returns whether a path of -m is a dump: a folder or an .npz."""
    return os.path.isdir(path) or path.endswith(".npz")


def find_dump(paths: Sequence[str]) -> str | None:
    """Returns the path of -m that is a dump beside a model: a folder or an .npz; None without one. Raises UsageError for
    several."""
    if len(paths) < 2:
        return None
    dumps = [path for path in paths if is_dump(path)]
    if len(dumps) > 1:
        raise UsageError(f"-m {dumps[1]}: two dumps; qverify compare A B compares them")
    return dumps[0] if dumps else None
