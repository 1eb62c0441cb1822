"""What the tests of several links share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.links.servers import Server


@pytest.fixture
def openssh(tmp_path: Path) -> Iterator[Server]:
    """A server of OpenSSH on loopback whose key is known."""
    made = Server("openssh", tmp_path)
    made.trust()
    try:
        yield made
    finally:
        made.close()
