"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "artifacts",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("time", sa.Float(precision=53), nullable=False),
        sa.Column("token", sa.String(length=200), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=True),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("request", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "boards",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("drained", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", sa.Float(precision=53), nullable=False),
        sa.Column("inconclusive", sa.Integer(), nullable=False),
        sa.Column("checks", sa.Integer(), nullable=False),
        sa.Column("next_check", sa.Float(precision=53), nullable=True),
        sa.Column("job", sa.String(length=32), nullable=True),
        sa.Column("last_verdict", sa.String(length=16), nullable=True),
        sa.Column("last_job", sa.String(length=32), nullable=True),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "events",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("time", sa.Float(precision=53), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=True),
        sa.Column("run", sa.String(length=32), nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index(op.f("ix_events_project"), "events", ["project"], unique=False)
    op.create_index(op.f("ix_events_run"), "events", ["run"], unique=False)
    op.create_table(
        "projects",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("quota_bytes", sa.BigInteger(), nullable=False),
        sa.Column("quota_jobs", sa.Integer(), nullable=False),
        sa.Column("keep_days", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "baselines",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("suite", sa.String(length=200), nullable=False),
        sa.Column("job", sa.String(length=500), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("blame_side", sa.String(length=32), nullable=False),
        sa.Column("nodes", sa.JSON(), nullable=False),
        sa.Column("report", sa.String(length=64), nullable=False),
        sa.Column("taken", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.id"],
        ),
        sa.PrimaryKeyConstraint("project", "suite", "job"),
    )
    op.create_table(
        "project_artifacts",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=500), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("used", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.id"],
        ),
        sa.ForeignKeyConstraint(
            ["sha256"],
            ["artifacts.sha256"],
        ),
        sa.PrimaryKeyConstraint("project", "sha256"),
    )
    op.create_table(
        "suite_runs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("submitter", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("definition", sa.JSON(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("started", sa.Float(precision=53), nullable=True),
        sa.Column("ended", sa.Float(precision=53), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("qverify", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_suite_runs_created"), "suite_runs", ["created"], unique=False)
    op.create_index(op.f("ix_suite_runs_name"), "suite_runs", ["name"], unique=False)
    op.create_index(op.f("ix_suite_runs_project"), "suite_runs", ["project"], unique=False)
    op.create_index(op.f("ix_suite_runs_state"), "suite_runs", ["state"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=True),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("expires", sa.Float(precision=53), nullable=True),
        sa.Column("revoked", sa.Float(precision=53), nullable=True),
        sa.Column("last_used", sa.Float(precision=53), nullable=True),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
    )
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.String(length=128), nullable=False),
        sa.Column("suite", sa.String(length=200), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("last_status", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("run", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=500), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("wanted", sa.JSON(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("retries_left", sa.Integer(), nullable=False),
        sa.Column("lost", sa.Integer(), nullable=False),
        sa.Column("board", sa.String(length=200), nullable=True),
        sa.Column("verdict", sa.String(length=16), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("blame_side", sa.String(length=32), nullable=False),
        sa.Column("blame_node", sa.Text(), nullable=False),
        sa.Column("nodes", sa.JSON(), nullable=False),
        sa.Column("report", sa.String(length=64), nullable=False),
        sa.Column("capture", sa.String(length=64), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("started", sa.Float(precision=53), nullable=True),
        sa.Column("ended", sa.Float(precision=53), nullable=True),
        sa.Column("board_seconds", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["run"],
            ["suite_runs.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("run", "number"),
    )
    op.create_index("jobs_by_history", "jobs", ["name", "board", "ended"], unique=False)
    op.create_index("jobs_by_state", "jobs", ["state", "run"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("board", sa.String(length=200), nullable=False),
        sa.Column("worker", sa.String(length=200), nullable=False),
        sa.Column("started", sa.Float(precision=53), nullable=False),
        sa.Column("ended", sa.Float(precision=53), nullable=True),
        sa.Column("ending", sa.String(length=16), nullable=True),
        sa.Column("verdict", sa.String(length=16), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["job"],
            ["jobs.id"],
        ),
        sa.PrimaryKeyConstraint("job", "number"),
    )
    op.create_index(op.f("ix_attempts_board"), "attempts", ["board"], unique=False)
