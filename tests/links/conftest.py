"""What the tests of several links share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.links.servers import DROPBEAR, Server
from tests.links.ssh_boards import OPENSSH

KINDS = [
    pytest.param("openssh", marks=OPENSSH),
    pytest.param("dropbear", marks=pytest.mark.skipif(DROPBEAR is None, reason="no dropbear on this machine")),
]


@pytest.fixture
def openssh(tmp_path: Path) -> Iterator[Server]:
    """A server of OpenSSH on loopback whose key is known."""
    made = Server("openssh", tmp_path)
    made.trust()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server of each kind on loopback whose key is known."""
    made = Server(request.param, tmp_path)
    made.trust()
    try:
        yield made
    finally:
        made.close()
