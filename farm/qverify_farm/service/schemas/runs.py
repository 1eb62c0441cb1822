"""The requests that submit runs, and the replies about runs and jobs."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from qverify_farm.service.outputs_diff_job import DECODER, WRITTEN
from qverify_farm.service.schemas.texts import (
    FilePath,
    Id,
    InputsText,
    OptionValue,
    RequestBody,
    Sha256,
    Text,
    Title,
)
from qverify_farm.work.job_options import FILES, JOB_OPTIONS, VALUES

Files = Annotated[
    dict[FilePath, Sha256],
    Field(max_length=100_000, description="the SHA-256 of each file that jobs see, uploaded before, by relative path"),
]
Labels = Annotated[
    dict[Text, Text], Field(max_length=32, description="set by the caller, such as firmware or toolchain")
]
Options = Annotated[
    dict[Text, OptionValue],
    Field(
        max_length=100,
        description="keywords of qverify.verify that a job may have",
        json_schema_extra={"properties": {k: {"description": JOB_OPTIONS[k].help} for k in sorted(VALUES | FILES)}},
    ),
]
Boards = Annotated[
    list[Title],
    Field(min_length=1, max_length=1000, description="names; KEY=VALUE for any one board; all:KEY=VALUE for each"),
]
Timeout = Annotated[float, Field(gt=0, le=604_800, allow_inf_nan=False, description="seconds")]


class Submission(RequestBody):
    """The fields of every submission."""

    files: Files
    labels: Labels = Field(default_factory=dict)
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    board_wait_s: Timeout = 900.0


class Verification(Submission):
    """The main job, run on each board. models and inputs are paths of `files`."""

    name: Title | None = None
    models: Annotated[list[FilePath], Field(min_length=1, max_length=8)]
    inputs: InputsText = ""
    boards: Boards
    options: Options = Field(default_factory=dict)
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    timeout_s: Timeout = 900.0
    keep_capture: bool = False


class SuiteJob(RequestBody):
    """One job of a suite, as `qverify suite plan` lists it. files: paths of `files`; a folder ends with /."""

    name: Annotated[Title, Field(max_length=500)]
    model: Title
    models: Annotated[list[FilePath], Field(min_length=1, max_length=8)]
    inputs: InputsText = ""
    files: Annotated[list[FilePath], Field(max_length=100_000)]
    wanted: Annotated[list[Title], Field(min_length=1, max_length=1000, description="names, or KEY=VALUE")]
    options: Options = Field(default_factory=dict)
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    timeout_s: Timeout = 900.0
    keep_capture: bool = False


class SuiteDefinition(Submission):
    """A suite, expanded into its jobs, with the digests of its files."""

    name: Title
    jobs: Annotated[list[SuiteJob], Field(min_length=1, max_length=100_000)]
    fail_fast: bool = False
    timeout_s: Timeout | None = None
    quarantine: Annotated[int, Field(ge=1, le=1000)] = 3
    baseline: bool = False


class Triage(Submission):
    """The triage ladder from the float model to the board's dump or capture; no board is used. app_output, dump, capture: paths
    of `files`; a folder ends with /. device_outputs: what the device's application made of the outputs (boxes, arrays); it is compared, as
    by `qverify outputs diff`, with `outputs` (the network's final outputs), capture or dump, without a ladder. The kind bad-case is for cases from the field, which the inbox lists."""

    name: Title | None = None
    kind: Literal["triage", "bad-case"] = "triage"
    models: Annotated[list[FilePath], Field(max_length=8)] = Field(default_factory=list)
    inputs: InputsText = ""
    dump: FilePath | Literal[""] = ""
    app_output: FilePath | Literal[""] = ""
    app_input: FilePath | Literal[""] = ""
    capture: FilePath | Literal[""] = ""
    description: FilePath | Literal[""] = ""
    device_outputs: FilePath | Literal[""] = ""
    outputs: FilePath | Literal[""] = ""
    decoder: Annotated[str, Field(pattern=f"^({DECODER})?$", max_length=500, description="a packaged decoder")] = ""
    written: Annotated[str, Field(pattern=f"^({WRITTEN})?$", max_length=500, description="how it is written")] = ""
    note: Annotated[Text, Field(description="what the sender saw")] = ""
    timeout_s: Timeout = 1800.0


class RunShort(BaseModel):
    """A run without its jobs. counts: the number of jobs in each state and with each verdict, and of jobs that PASSED with caveats
    (`caveats`). note: what the sender of a triage or
    a bad case saw. models, boards: those of its jobs, each once."""

    id: Id
    name: str
    kind: str
    project: str
    submitter: str
    state: str
    verdict: str | None
    why: str
    priority: int
    labels: dict[str, Any]
    created: float = Field(description="seconds since 1970")
    started: float | None
    ended: float | None
    qverify: str
    note: str = ""
    counts: dict[str, int] = Field(default_factory=dict)
    models: list[str] = Field(default_factory=list)
    boards: list[str] = Field(default_factory=list)


class Runs(BaseModel):
    runs: list[RunShort]


class JobShort(BaseModel):
    """A job and its first complete result. caveats: what weakens its verdict, in one line, or "". gate: the criteria of its report, in words. report, capture: the SHA-256 of the artifact, or "". waits: why a queued job waits, or
    ""."""

    id: Id
    run: Id
    number: int
    name: str
    model: str
    wanted: list[str]
    state: str
    board: str | None
    attempt: int
    verdict: str | None
    why: str
    caveats: str
    gate: str
    waits: str
    blame_side: str
    blame_node: str
    nodes: list[str]
    report: str
    capture: str
    facts: dict[str, Any]
    started: float | None
    ended: float | None
    board_seconds: float


class Jobs(BaseModel):
    jobs: list[JobShort]


class AttemptShort(BaseModel):
    number: int
    board: str
    worker: str
    started: float
    ended: float | None
    ending: str | None
    verdict: str | None
    why: str
    seconds: float


class JobWhole(JobShort):
    attempts: list[AttemptShort]
    results: list[ResultFile] = Field(default_factory=list, description="the stored report and capture, for download")


class ResultFile(BaseModel):
    name: str
    kind: str
    sha256: str
    size: int


class Submitted(BaseModel):
    """id: the id of the run."""

    id: Id
    jobs: int


class Cancel(RequestBody):
    why: Text = ""


class Changed(BaseModel):
    """changed: whether the request changed anything. jobs: the number of affected jobs."""

    changed: bool
    jobs: int = 0


class HistoryRow(BaseModel):
    """A finished job, with facts about its run."""

    job: Id
    run: Id
    suite: str
    name: str
    model: str
    board: str | None
    verdict: str | None
    baseline: str | None = Field(description="the expected verdict, if there is a baseline")
    why: str
    caveats: str
    gate: str
    blame_side: str
    blame_node: str
    nodes: list[str]
    labels: dict[str, Any]
    facts: dict[str, Any]
    report: str
    ended: float | None
    board_seconds: float


class History(BaseModel):
    jobs: list[HistoryRow]


class HistoryChoices(BaseModel):
    """The values by which finished jobs can be filtered: each once, sorted, at most 1,000 of each."""

    models: list[str]
    boards: list[str]
    suites: list[str]
    jobs: list[str]
    verdicts: list[str]
    labels: list[str]
    first_day: date | None
    last_day: date | None


class NodePoint(BaseModel):
    """The metrics of a tensor for one pair of sides, from the report of a job."""

    job: Id
    run: Id
    board: str | None
    labels: dict[str, Any]
    ended: float | None
    pair: str
    verdict: str
    metrics: dict[str, float | None]


class NodeHistory(BaseModel):
    points: list[NodePoint]


class Difference(BaseModel):
    """A job with different results in two runs, or that only one of the runs has. before, after: its verdicts. before_state,
    after_state: its states, or "" in a run that does not have it."""

    name: str
    before: str | None
    after: str | None
    before_state: str = ""
    after_state: str = ""
    before_board: str | None = None
    after_board: str | None = None
    before_blame: str = ""
    after_blame: str = ""
    before_caveats: str = ""
    after_caveats: str = ""
    before_gate: str = ""
    after_gate: str = ""
    before_job: str
    after_job: str
    before_report: str = ""
    after_report: str = ""


class Differences(BaseModel):
    same: int
    different: list[Difference]


class BaselineRow(BaseModel):
    """The expected result of a job. nodes, extent: where it fails and by how much; an empty extent, of an older qverify, makes every
    failure a new one."""

    suite: str
    job: str
    verdict: str
    nodes: list[str]
    extent: dict[str, Any]
    report: str
    taken: float


class Baselines(BaseModel):
    baselines: list[BaselineRow]


class BaselineOf(RequestBody):
    """run: the run with the results that become the baseline of its suite."""

    run: Id


JobWhole.model_rebuild()
