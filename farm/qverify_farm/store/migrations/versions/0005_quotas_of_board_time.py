"""Adds the quotas of board time to projects."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for name, seconds in (("quota_job_s", "14400"), ("quota_submitter_s", "8640000")):
        op.add_column("projects", sa.Column(name, sa.Float(precision=53), nullable=False, server_default=seconds))
