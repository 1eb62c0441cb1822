"""Names sides within a sentence: a role has an article, the name of a dump has none."""

from __future__ import annotations

ROLES = ("reference", "simulator", "board", "dump")


def named(side: str) -> str:
    """Returns `the board`, or `A` for a dump that is called A."""
    return f"the {side}" if side in ROLES else side


def within(side: str) -> str:
    """Returns `on the board`, `in the reference`, or `in A` for a dump that is called A."""
    return f"{'on' if side == 'board' else 'in'} {named(side)}"
