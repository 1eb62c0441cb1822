"""The tables of the farm's database. Times are floats: seconds since 1970, UTC. Every change here needs a migration."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Float, ForeignKey, Index, Integer, String, Text, UniqueConstraint, true
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

ID = String(32)  # uuid4().hex
SHA256 = String(64)
NAME = String(200)


class Base(DeclarativeBase):
    """The base class of all tables."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {dict[str, Any]: JSON, list[Any]: JSON, float: Float(53)}


class ProjectRecord(Base):
    """A project, to which tokens, suites and artifacts belong. quota_bytes: the permitted size of its artifacts. quota_jobs: the
    permitted number of queued jobs. quota_job_s, quota_submitter_s: the permitted board time of one job, and of the unfinished jobs
    of one submitter. quota_day_s, quota_submitter_day_s: the board time that all its jobs, and those of one submitter, may use within 24
    hours; beyond it they wait."""

    __tablename__ = "projects"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    name: Mapped[str] = mapped_column(NAME, unique=True)
    created: Mapped[float]
    quota_bytes: Mapped[int] = mapped_column(BigInteger, default=50 << 30)
    quota_jobs: Mapped[int] = mapped_column(Integer, default=100_000)
    keep_days: Mapped[float] = mapped_column(default=90.0)
    quota_job_s: Mapped[float] = mapped_column(default=14_400.0, server_default="14400")
    quota_submitter_s: Mapped[float] = mapped_column(default=8_640_000.0, server_default="8640000")
    quota_day_s: Mapped[float] = mapped_column(default=8_640_000.0, server_default="8640000")
    quota_submitter_day_s: Mapped[float] = mapped_column(default=8_640_000.0, server_default="8640000")


class TokenRecord(Base):
    """A bearer token. hash: the SHA-256 of its secret, which is shown only once. role: viewer, submitter or admin. project: None
    for all projects (admin only)."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    name: Mapped[str] = mapped_column(NAME)
    hash: Mapped[str] = mapped_column(SHA256, unique=True)
    role: Mapped[str] = mapped_column(String(16))
    project: Mapped[str | None] = mapped_column(ForeignKey("projects.id"))
    created: Mapped[float]
    expires: Mapped[float | None]
    revoked: Mapped[float | None]
    last_used: Mapped[float | None]


class BrowserSessionRecord(Base):
    """The session of a browser in which a user is logged in. hash: the SHA-256 of the session's id, which only the cookie
    contains. token: the token used to log in; the session ends with it. used: the time of the last request; the session ends
    some hours later."""

    __tablename__ = "browser_sessions"
    hash: Mapped[str] = mapped_column(SHA256, primary_key=True)
    token: Mapped[str] = mapped_column(ForeignKey("tokens.id"), index=True)
    created: Mapped[float]
    used: Mapped[float]


class ArtifactRecord(Base):
    """An artifact in the store, by its SHA-256: a file of a model or of inputs, a report, a capture, an upload."""

    __tablename__ = "artifacts"
    sha256: Mapped[str] = mapped_column(SHA256, primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    created: Mapped[float]


class ProjectArtifactRecord(Base):
    """An artifact of a project, which uploaded or produced it and may therefore read it. kind: file, report, capture, bundle,
    page."""

    __tablename__ = "project_artifacts"
    project: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), primary_key=True)
    name: Mapped[str] = mapped_column(String(500), default="")
    kind: Mapped[str] = mapped_column(String(16), default="file")
    used: Mapped[float]  # time of the last use, from which retention counts


class SuiteRunRecord(Base):
    """A submission of a suite. definition: the whole suite as JSON, with the digests of its files. verdict: None until it has
    ended. priority: among the runs of one submitter, a larger one is first."""

    __tablename__ = "suite_runs"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    name: Mapped[str] = mapped_column(NAME, index=True)
    submitter: Mapped[str] = mapped_column(NAME)
    kind: Mapped[str] = mapped_column(String(16), default="suite")  # suite, verify, triage, bad-case
    definition: Mapped[dict[str, Any]]
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict)  # set by the caller, such as firmware or toolchain
    state: Mapped[str] = mapped_column(String(16), index=True)
    verdict: Mapped[str | None] = mapped_column(String(16))
    priority: Mapped[int] = mapped_column(Integer, default=0)
    created: Mapped[float] = mapped_column(index=True)
    started: Mapped[float | None]
    ended: Mapped[float | None]
    why: Mapped[str] = mapped_column(Text, default="")  # why it was cancelled
    qverify: Mapped[str] = mapped_column(String(40))


class JobRecord(Base):
    """A job: one model, one set of inputs and one set of options, to run on one board.

    Attributes:
        number: Its place in the suite, from 0.
        name: Its name, unique in its suite and the same in every run of it; the history is found by it.
        wanted: The boards that fit, each a name, or tags ("soc=j5,firmware=1.2"), also of boards that appear later.
        settings: Further values for a JobTask.
        attempt: The number of the present or last attempt.
        verdict: The verdict of the first complete result, from which the columns after it come, too.
    """

    __tablename__ = "jobs"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    run: Mapped[str] = mapped_column(ForeignKey("suite_runs.id"))
    number: Mapped[int]
    name: Mapped[str] = mapped_column(String(500))
    model: Mapped[str] = mapped_column(NAME)
    wanted: Mapped[list[Any]]
    settings: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(String(16))
    attempt: Mapped[int] = mapped_column(Integer, default=0)
    retries_left: Mapped[int] = mapped_column(Integer, default=0)
    lost: Mapped[int] = mapped_column(Integer, default=0)  # number of attempts that ended their process
    board: Mapped[str | None] = mapped_column(NAME)
    verdict: Mapped[str | None] = mapped_column(String(16))
    why: Mapped[str] = mapped_column(Text, default="")
    blame_side: Mapped[str] = mapped_column(String(32), default="")
    blame_node: Mapped[str] = mapped_column(Text, default="")
    nodes: Mapped[list[Any]] = mapped_column(default=list)
    extent: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")  # of the failure at these nodes
    caveats: Mapped[str] = mapped_column(Text, default="", server_default="")  # what weakens the verdict, in one line
    gate: Mapped[str] = mapped_column(Text, default="", server_default="")  # the criteria of its report, in words
    report: Mapped[str] = mapped_column(SHA256, default="")
    capture: Mapped[str] = mapped_column(SHA256, default="")
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict)
    started: Mapped[float | None]
    ended: Mapped[float | None]
    board_seconds: Mapped[float] = mapped_column(default=0.0)
    __table_args__ = (
        UniqueConstraint("run", "number"),
        Index("jobs_by_state", "state", "run"),
        Index("jobs_by_history", "name", "board", "ended"),
    )


class AttemptRecord(Base):
    """An attempt to run a job on a board. ending: None while it runs. of_board: whether the board caused an INCONCLUSIVE."""

    __tablename__ = "attempts"
    job: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    board: Mapped[str] = mapped_column(NAME, index=True)
    worker: Mapped[str] = mapped_column(NAME, default="")
    started: Mapped[float]
    ended: Mapped[float | None]
    ending: Mapped[str | None] = mapped_column(String(16))
    verdict: Mapped[str | None] = mapped_column(String(16))
    why: Mapped[str] = mapped_column(Text, default="")
    seconds: Mapped[float] = mapped_column(default=0.0)
    of_board: Mapped[bool] = mapped_column(default=True, server_default=true())


class BoardRecord(Base):
    """A board of the farm and its state. tags: its tags in the inventory. drained: an administrator took it out of service.
    inconclusive: the number of INCONCLUSIVE results in a row that the board caused. checks: the number of failed health checks in
    a row."""

    __tablename__ = "boards"
    name: Mapped[str] = mapped_column(NAME, primary_key=True)
    host: Mapped[str] = mapped_column(NAME, default="")
    tags: Mapped[dict[str, Any]] = mapped_column(default=dict)
    state: Mapped[str] = mapped_column(String(16))
    drained: Mapped[bool] = mapped_column(default=False)
    reason: Mapped[str] = mapped_column(Text, default="")
    since: Mapped[float]
    inconclusive: Mapped[int] = mapped_column(Integer, default=0)
    checks: Mapped[int] = mapped_column(Integer, default=0)
    next_check: Mapped[float | None]
    job: Mapped[str | None] = mapped_column(ID)
    last_verdict: Mapped[str | None] = mapped_column(String(16))
    last_job: Mapped[str | None] = mapped_column(ID)
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict)  # from its last HELLO: arch, version, temperature_c


class EventRecord(Base):
    """An event. number: increases by one with each event. kind: run, job, board. project: None for boards."""

    __tablename__ = "events"
    number: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    time: Mapped[float]
    project: Mapped[str | None] = mapped_column(ID, index=True)
    run: Mapped[str | None] = mapped_column(ID, index=True)
    kind: Mapped[str] = mapped_column(String(16))
    content: Mapped[dict[str, Any]]


class BaselineRecord(Base):
    """The expected verdict of the jobs with a name, the nodes that fail, the extent of the failure ({}: not known, of an older
    qverify), and the report from which they were taken."""

    __tablename__ = "baselines"
    project: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    suite: Mapped[str] = mapped_column(NAME, primary_key=True)
    job: Mapped[str] = mapped_column(String(500), primary_key=True)
    verdict: Mapped[str] = mapped_column(String(16))
    blame_side: Mapped[str] = mapped_column(String(32), default="")
    nodes: Mapped[list[Any]] = mapped_column(default=list)
    extent: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    report: Mapped[str] = mapped_column(SHA256, default="")
    taken: Mapped[float]


class WebhookRecord(Base):
    """A URL that is called when a suite's verdict changes. secret: the key that signs the body (HMAC-SHA256)."""

    __tablename__ = "webhooks"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    url: Mapped[str] = mapped_column(Text)
    secret: Mapped[str] = mapped_column(String(128))
    suite: Mapped[str] = mapped_column(NAME, default="")  # "" for every suite of the project
    created: Mapped[float]
    last_status: Mapped[str] = mapped_column(Text, default="")


class AuditRecord(Base):
    """A record of who changed what. Entries are never updated, and removed only when they are old."""

    __tablename__ = "audit"
    number: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    time: Mapped[float]
    token: Mapped[str] = mapped_column(NAME)
    project: Mapped[str | None] = mapped_column(ID)
    action: Mapped[str] = mapped_column(String(64))
    content: Mapped[dict[str, Any]]
    request: Mapped[str] = mapped_column(String(64), default="")
