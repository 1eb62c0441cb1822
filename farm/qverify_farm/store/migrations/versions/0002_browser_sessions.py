"""Sessions of browsers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "browser_sessions",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("created", sa.Float(precision=53), nullable=False),
        sa.Column("used", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["token"],
            ["tokens.id"],
        ),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index(op.f("ix_browser_sessions_token"), "browser_sessions", ["token"], unique=False)
