"""The contents of the Python agent: pieces, and files that were cut off or grew behind its back."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from qverify_worker.contents import Contents

DATA = bytes(range(200))
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.mark.parametrize("found", [b"", DATA[:50], DATA + b"more"])
def test_a_file_of_another_size_is_sent_anew(tmp_path: Path, found: bytes) -> None:
    """A power failure or a command of the board can leave such a file."""
    contents = Contents(tmp_path, 1 << 20)
    (tmp_path / SHA256).write_bytes(found)
    at = contents.put(SHA256, len(DATA), len(found) if len(found) < len(DATA) else 0, DATA[len(found) :][:20])
    while at < len(DATA):
        at = contents.put(SHA256, len(DATA), at, DATA[at : at + 60])
    assert contents.read(SHA256) == DATA


def test_pieces_are_resumed_and_what_is_whole_is_kept(tmp_path: Path) -> None:
    assert Contents(tmp_path, 1 << 20).put(SHA256, len(DATA), 0, DATA[:90]) == 90
    again = Contents(tmp_path, 1 << 20)
    assert again.stored_bytes(SHA256) == 90 and again.put(SHA256, len(DATA), 90, DATA[90:]) == len(DATA)
    assert again.put(SHA256, len(DATA), 0, DATA[:90]) == len(DATA) and again.read(SHA256) == DATA
