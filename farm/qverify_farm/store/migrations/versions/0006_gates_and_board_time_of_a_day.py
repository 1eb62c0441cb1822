"""Adds the gate of a job's report, and the quotas of board time within 24 hours."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("gate", sa.Text(), nullable=False, server_default=""))
    for name in ("quota_day_s", "quota_submitter_day_s"):
        op.add_column("projects", sa.Column(name, sa.Float(precision=53), nullable=False, server_default="8640000"))
