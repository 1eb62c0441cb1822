"""What a submission says, and what is told of runs and jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from qverify_farm.service.schemas.texts import (
    Asked,
    FilePath,
    Id,
    InputsText,
    OptionValue,
    Sha256,
    Text,
    Title,
)

Files = Annotated[
    dict[FilePath, Sha256],
    Field(max_length=100_000, description="the files that jobs see, by relative path: SHA-256 of bytes put before"),
]
Labels = Annotated[dict[Text, Text], Field(max_length=32, description="the caller's own: firmware, toolchain")]
Options = Annotated[
    dict[Text, OptionValue], Field(max_length=100, description="keywords of qverify.verify that a job may have")
]
Boards = Annotated[
    list[Title],
    Field(min_length=1, max_length=1000, description="names; KEY=VALUE for any one board; all:KEY=VALUE for each"),
]
Timeout = Annotated[float, Field(gt=0, le=604_800, allow_inf_nan=False, description="seconds")]


class Submission(Asked):
    """What every submission has."""

    files: Files
    labels: Labels = Field(default_factory=dict)
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    board_wait_s: Timeout = 900.0


class Verification(Submission):
    """The main job, one for each board: models and inputs name paths of `files`."""

    name: Title | None = None
    models: Annotated[list[FilePath], Field(min_length=1, max_length=8)]
    inputs: InputsText = ""
    boards: Boards
    options: Options = Field(default_factory=dict)
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    timeout_s: Timeout = 900.0
    keep_capture: bool = False


class SuiteJob(Asked):
    """One job of a suite, as `qverify suite plan` makes it of suite.toml. files: paths, a folder ends with /."""

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
    """A suite, expanded into its jobs, with its files' digests."""

    name: Title
    jobs: Annotated[list[SuiteJob], Field(min_length=1, max_length=100_000)]
    fail_fast: bool = False
    timeout_s: Timeout | None = None
    quarantine: Annotated[int, Field(ge=1, le=1000)] = 3
    baseline: bool = False


class Triage(Submission):
    """The ladder from the float model to the board's dump or capture; no board is touched. app_output, dump, capture:
    paths of `files`; a folder ends with /. kind bad-case: it came from the field, and the inbox lists it."""

    name: Title | None = None
    kind: Literal["triage", "bad-case"] = "triage"
    models: Annotated[list[FilePath], Field(max_length=8)] = Field(default_factory=list)
    inputs: InputsText = ""
    dump: FilePath | Literal[""] = ""
    app_output: FilePath | Literal[""] = ""
    app_input: FilePath | Literal[""] = ""
    capture: FilePath | Literal[""] = ""
    description: FilePath | Literal[""] = ""
    note: Annotated[Text, Field(description="what the sender saw")] = ""
    timeout_s: Timeout = 1800.0


class RunShort(BaseModel):
    """A run, without its jobs. counts: jobs by state and by verdict."""

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
    counts: dict[str, int] = Field(default_factory=dict)


class Runs(BaseModel):
    runs: list[RunShort]


class JobShort(BaseModel):
    """A job and its first complete result. report, capture: SHA-256 of artifacts, or ""."""

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
    results: list[ResultFile] = Field(default_factory=list, description="other artifacts that it made: bundles, pages")


class ResultFile(BaseModel):
    name: str
    kind: str
    sha256: str
    size: int


class Submitted(BaseModel):
    """id: of the run."""

    id: Id
    jobs: int


class Cancel(Asked):
    why: Text = ""


class Changed(BaseModel):
    """changed: whether there was anything to change. jobs: that wait now."""

    changed: bool
    jobs: int = 0


class HistoryRow(BaseModel):
    """A job that is done, with what was said of its run."""

    job: Id
    run: Id
    suite: str
    name: str
    model: str
    board: str | None
    verdict: str | None
    baseline: str | None = Field(description="the verdict that it is expected to have")
    why: str
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


class NodePoint(BaseModel):
    """What a run's report says of one tensor. metrics: numbers of one pair of sides."""

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
    """A job of two runs of which the results differ, or that only one has."""

    name: str
    board: str | None
    before: str | None
    after: str | None
    before_blame: str = ""
    after_blame: str = ""
    before_report: str = ""
    after_report: str = ""


class Differences(BaseModel):
    same: int
    different: list[Difference]


class BaselineRow(BaseModel):
    suite: str
    job: str
    verdict: str
    report: str
    taken: float


class Baselines(BaseModel):
    baselines: list[BaselineRow]


class BaselineOf(Asked):
    """run: whose results are taken as the baseline of its suite."""

    run: Id


JobWhole.model_rebuild()
