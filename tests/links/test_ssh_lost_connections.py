"""Connections to boards behind SSH that are lost, the lock that they hold, and hosts that go."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from qverify_agents.connect import connect
from qverify_agents.errors import BoardBusy

from tests.links.cut_proxy import CutProxy
from tests.links.servers import agents_of


def test_a_lost_connection_is_made_again(server):
    with connect(server.board, 30) as agent:
        agent.ping()
        server.drop_connections()
        time.sleep(0.2)
        agent.ping()
        assert agent.generation == 1 and agent.hello["arch"]
        assert agent.hello["lock"] in ("held", "none")


def test_a_connection_lost_for_the_host_only_is_made_again(openssh):
    """The board's end does not notice: what holds the board then is this run itself."""
    proxy = CutProxy(openssh.port)
    openssh.port = proxy.port
    openssh.write_config()
    openssh.trust()
    try:
        with connect(openssh.board, 30) as agent:
            agent.ping()
            proxy.cut()
            start = time.monotonic()
            agent.ping()
            assert agent.generation == 1 and time.monotonic() - start < 8
            assert agent.refresh_hello()["lock"] == "held" and len(agents_of(openssh.cache)) == 1
        connect(openssh.board, 30).close()
    finally:
        proxy.close()


def test_a_board_in_use_names_its_user_and_can_be_waited_for(server):
    """A second user is refused: by the board's own lock over another way, and by this host's before the board is touched."""
    server.write_config(server.config.read_text().replace("Host testboard", "Host other"))
    with connect(server.board, 30) as first:
        assert first.hello["lock"] == "held"
        with pytest.raises(BoardBusy, match=r"in use by .* pid .* last heard \d+ s ago"):
            connect(server.board.replace("testboard", "other"), 30)
        with pytest.raises(BoardBusy, match=r"in use by .* pid .* on this host"):
            connect(server.board, 30)
        threading.Timer(1.0, first.close).start()
        with connect(f"{server.board}&wait=20", 30) as second:
            assert second.hello["lock"] == "held"


HANGS = """
import sys
sys.path[:0] = sys.argv[2:]
from tiny_model import graph, model_bytes, prepared
from qverify.sides.board import Board
board = Board(sys.argv[1], model_bytes(), graph(), 60)
print("up", flush=True)
board.run(prepared())
"""


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGINT"])
def test_a_run_that_hangs_goes_with_its_host(server, signal_name):
    """The node never comes back; the agent must not keep the board for ever."""
    import signal

    board = f"faulty:{server.board}&fault=hang@u"
    words = [sys.executable, "-c", HANGS, board, str(Path(__file__).parents[1] / "conformance")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as host:
        assert host.stdout is not None and host.stdout.readline() == b"up\n"
        time.sleep(1.0)
        assert agents_of(server.cache)
        host.send_signal(getattr(signal, signal_name))
        host.wait(20)
    end = time.monotonic() + 10
    while agents_of(server.cache) and time.monotonic() < end:
        time.sleep(0.1)
    assert agents_of(server.cache) == []
    connect(server.board, 30).close()
