"""Adds the caveats of jobs, and the extents of failures to jobs and baselines. Those of earlier rows are not known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("caveats", sa.Text(), nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("extent", sa.JSON(), nullable=False, server_default="{}"))
    op.add_column("baselines", sa.Column("extent", sa.JSON(), nullable=False, server_default="{}"))
