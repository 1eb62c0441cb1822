"""Adds to each attempt whether the board caused an INCONCLUSIVE."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("of_board", sa.Boolean(), nullable=False, server_default=sa.true()))
