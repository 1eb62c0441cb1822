"""The requests and replies about boards, artifacts, events, webhooks, projects, tokens and the service itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from qverify_farm.service.schemas.texts import Id, Name, RequestBody, Text

Role = Literal["viewer", "submitter", "admin"]


class ArtifactShort(BaseModel):
    sha256: str
    size: int
    name: str
    kind: str


class Artifacts(BaseModel):
    artifacts: list[ArtifactShort]


class BoardShort(BaseModel):
    """job: also None if it belongs to another project."""

    name: str
    host: str
    tags: dict[str, Any]
    state: str
    drained: bool
    reason: str
    since: float
    job: str | None
    last_verdict: str | None
    next_check: float | None
    facts: dict[str, Any]


class Boards(BaseModel):
    boards: list[BoardShort]


class QueueState(BaseModel):
    """waiting, running: numbers of jobs. unserved: the number of waiting jobs for which no board is usable. boards: the number of
    boards in each state."""

    waiting: int
    running: int
    unserved: int
    boards: dict[str, int]


class Drain(RequestBody):
    reason: Text = ""


class EventShort(BaseModel):
    number: int
    time: float
    kind: str
    run: str | None
    content: dict[str, Any]


class Events(BaseModel):
    events: list[EventShort]


class NewWebhook(RequestBody):
    """suite: the suite for which the webhook is called; "" for every suite of the project."""

    url: Annotated[str, Field(max_length=2000, pattern=r"^https?://[!-~]+$")]
    suite: Annotated[Text, Field(max_length=200)] = ""


class WebhookShort(BaseModel):
    id: Id
    url: str
    suite: str
    created: float
    last_status: str


class WebhookMade(WebhookShort):
    secret: str = Field(description="signs each body: HMAC-SHA256 in X-QVerify-Signature; shown once")


class Webhooks(BaseModel):
    webhooks: list[WebhookShort]


Seconds = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False, description="seconds of board time")]


class NewProject(RequestBody):
    name: Name
    quota_bytes: Annotated[int, Field(ge=0, le=1 << 53)] = 50 << 30
    quota_jobs: Annotated[int, Field(ge=0, le=10_000_000)] = 100_000
    quota_job_s: Seconds = 14_400.0
    quota_submitter_s: Seconds = 8_640_000.0
    quota_day_s: Seconds = 8_640_000.0
    quota_submitter_day_s: Seconds = 8_640_000.0
    keep_days: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = 90.0


class ProjectChange(RequestBody):
    quota_bytes: Annotated[int, Field(ge=0, le=1 << 53)] | None = None
    quota_jobs: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    quota_job_s: Seconds | None = None
    quota_submitter_s: Seconds | None = None
    quota_day_s: Seconds | None = None
    quota_submitter_day_s: Seconds | None = None
    keep_days: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] | None = None


class ProjectShort(BaseModel):
    """bytes: the size of its artifacts. queued: the number of jobs that wait or run. day_s: the board time
    that its jobs used within the last 24 hours."""

    id: Id
    name: str
    created: float
    quota_bytes: int
    quota_jobs: int
    quota_job_s: float
    quota_submitter_s: float
    quota_day_s: float
    quota_submitter_day_s: float
    keep_days: float
    bytes: int
    queued: int
    day_s: float


class Projects(BaseModel):
    projects: list[ProjectShort]


class NewToken(RequestBody):
    """project: None for all projects. days: the time until it expires; None for never."""

    name: Name
    role: Role
    project: Name | None = None
    days: Annotated[float, Field(gt=0, le=3650, allow_inf_nan=False)] | None = None


class TokenShort(BaseModel):
    id: Id
    name: str
    role: str
    project: str | None
    created: float
    expires: float | None
    revoked: float | None
    last_used: float | None


class TokenMade(TokenShort):
    token: str = Field(description="the secret, shown once")


class Tokens(BaseModel):
    tokens: list[TokenShort]


class WhoAmI(BaseModel):
    """project: None for all projects. local: true if no token is needed on this host, since none exists."""

    name: str
    role: str
    project: str | None
    local: bool
    qverify: str


class AuditRow(BaseModel):
    number: int
    time: float
    token: str
    project: str | None
    action: str
    content: dict[str, Any]
    request: str


class Audit(BaseModel):
    entries: list[AuditRow]


class Swept(BaseModel):
    """The numbers of what the retention removed. bytes: the size of the removed artifacts."""

    runs: int
    events: int
    artifacts: int
    bytes: int


class Done(BaseModel):
    done: bool = True


class Alive(BaseModel):
    alive: bool = True
    qverify: str


class Check(BaseModel):
    ok: bool
    why: str = ""


class Ready(BaseModel):
    """checks: database, artifacts, dispatcher, engine."""

    ready: bool
    checks: dict[str, Check]


class Session(RequestBody):
    token: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[!-~]+$")]
