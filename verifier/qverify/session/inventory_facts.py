"""What boards.toml states about the board of a run: its name and its tags."""

from __future__ import annotations

from qverify_agents.errors import BadAddress
from qverify_agents.inventory import find_entry

from qverify.report.stated_facts import usable_facts
from qverify.session.request import Request
from qverify.tensors.recording import Recording


def state_inventory(recording: Recording, board: str | None) -> None:
    """Adds the name and the tags of the board's entry to its recording, for the report. board: as given with -b."""
    recording.inventory, recording.tags = _entry(board)


def facts_of_run(request: Request) -> dict[str, str]:
    """Returns what is stated about a run: the tags of its board, and the facts of --fact, which come first."""
    return _entry(request.board)[1] | dict(request.options.facts)


def _entry(board: str | None) -> tuple[str, dict[str, str]]:
    try:
        entry = find_entry(board) if board is not None else None
    except BadAddress:  # a board of tags, or an inventory that changed since the board was opened
        return "", {}
    return ("", {}) if entry is None else (entry.name, dict(usable_facts(entry.tags)))
