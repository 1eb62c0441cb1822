"""Places of labgrid as boards, over a real coordinator and exporter on loopback whose boards are this machine's sshd."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from typing import Any

import pytest
from qverify.cli.main import main
from qverify_agents.address import parse
from qverify_agents.boards.labgrid import HeldPlace, records_folder
from qverify_agents.connect import connect
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardBusy, BoardUnreachable, LinkError, NotOnThisHost
from qverify_agents.this_user import cache_folder

from tests.labgrid_lab import Lab, NoLabgrid, lab, labgrid_python
from tests.links.servers import Server
from tests.links.ssh_boards import OPENSSH

pytestmark = OPENSSH
SOON_S = 15.0  # for what happens at once, on a busy machine too


class Board:
    """This machine's sshd as the board of every place, a power switch that starts it, and a console that repeats one line."""

    def __init__(self, folder: Path):
        self.folder, self.switched = folder, list[str]()
        self.power_on()
        self.server.trust()
        board = self

        class Switch(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                board.switched.append(self.path)
                if self.path == "/power/1":
                    board.power_on(board.server.port)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self._switch, self._console = ThreadingHTTPServer(("127.0.0.1", 0), Switch), create_server(("127.0.0.1", 0))
        self.power_url = f"http://127.0.0.1:{self._switch.server_port}/power/{{value}}"
        self.console_port = self._console.getsockname()[1]
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._switch.serve_forever, self._print)]
        for thread in self._threads:
            thread.start()

    def power_on(self, port: int = 0) -> None:
        self.server = Server("openssh", self.folder, port=port)
        config = self.server.config.read_text()
        self.server.config.write_text(config.replace("Host testboard", "Host 127.0.0.1"))

    def _print(self) -> None:
        while True:
            try:
                connection, _ = self._console.accept()
            except OSError:
                return
            with connection:
                try:
                    while True:
                        connection.sendall(b"board: hello\r\n")
                        time.sleep(0.05)
                except OSError:  # whoever listened has gone
                    continue

    def close(self) -> None:
        self._switch.shutdown()
        self._switch.server_close()
        self._console.shutdown(2)
        self._console.close()
        for thread in self._threads:
            thread.join(SOON_S)
        self.server.close()


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with closing(Board(tmp_path_factory.mktemp("board"))) as made:
        yield made


@pytest.fixture(scope="module")
def running(board: Board, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """desk and shelf are boards; twin_a has the resources of desk, twin_b those of shelf; the exporter of attic is away."""
    try:
        python = labgrid_python(cache_folder() / "labgrid")
    except NoLabgrid as error:
        pytest.skip(str(error))
    service = {"NetworkService": {"address": "127.0.0.1", "username": "root", "port": board.server.port}}
    power = {"NetworkPowerPort": {"model": "simplerest", "host": board.power_url, "index": 0}}
    console = {"NetworkSerialPort": {"host": "127.0.0.1", "port": board.console_port, "protocol": "raw"}}
    places = {
        "desk": ("desk", {"soc": "j5", "fw": "1.2"}),
        "shelf": ("shelf", {"soc": "j5", "fw": "1.1"}),
        "twin_a": ("desk", {"kind": "twin"}),
        "twin_b": ("shelf", {"kind": "twin"}),
        "attic": ("attic", {"soc": "x3", "kind": "twin"}),
        "plug": ("plug", {"soc": "x3"}),
    }
    resources = {"desk": {**service, **power, **console}, "shelf": service, "plug": power}
    with lab(python, tmp_path_factory.mktemp("lab"), places, resources) as made:
        yield made


@pytest.fixture
def site(running: Lab, board: Board, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The lab, named by the environment, with nothing held."""
    monkeypatch.setenv("LG_COORDINATOR", running.coordinator)
    monkeypatch.setenv("QVERIFY_LABGRID_PYTHON", str(running.python))
    monkeypatch.setenv("QVERIFY_SSH_CONFIG", str(board.server.config))
    return running


def hold(place: str) -> HeldPlace:
    return HeldPlace(parse(f"labgrid:{place}"), Deadline(60))


def qverify(*words: str) -> subprocess.Popen[bytes]:
    """Starts the program."""
    return subprocess.Popen(
        [sys.executable, "-m", "qverify", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def until(true: Callable[[], Any]) -> Any:
    end = time.monotonic() + SOON_S
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def test_a_model_is_verified_on_a_place_found_by_its_tags(
    site: Lab, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    address = f"labgrid:soc=j5,fw=1.2?cache={tmp_path}/cache"
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", address, "-r"]) == 0
    printed = capsys.readouterr().out
    assert f"the board is place desk of the labgrid at {site.coordinator}" in printed
    assert site.holders() == {} and site.reservations() == []
    assert list(records_folder().iterdir()) == []


def test_a_held_place_names_its_holder_and_can_be_waited_for(site: Lab, tmp_path: Path):
    with closing(hold("desk")) as first:
        assert site.holders() == {"desk": first.identity}
        with pytest.raises(BoardBusy, match=rf"desk is held by {first.identity} since \d+ s ago; --wait"):
            hold("desk")
        threading.Timer(1.0, first.close).start()
        with connect(f"labgrid:desk?cache={tmp_path}/cache&wait=30", 30) as agent:
            assert agent.hello["lock"] == "held" and first.identity not in site.holders().values()
    assert site.holders() == {}


def test_a_place_that_cannot_be_acquired_is_passed_over_for_the_next(site: Lab):
    """twin_a is free but its resources are not, attic's are not there; both are allocated first, by chance or not."""
    with closing(hold("desk")), closing(hold("kind=twin")) as other:
        assert other.name == "twin_b" and site.holders()["twin_b"] == other.identity
        with pytest.raises(BoardBusy, match=r"twin_b is held by"):
            hold("kind=twin")
    assert site.reservations() == []


@pytest.mark.parametrize(
    ("address", "kind", "said"),
    [
        ("desl", BadAddress, r"^-b labgrid:desl: no place 'desl' at 127\S+; did you mean desk\?$"),
        ("soc=j9", BadAddress, r"no place with soc=j9 at \S+; known tags: fw=1.1, fw=1.2, kind=twin, soc=j5, soc=x3$"),
        (
            "soc=x3",
            BoardUnreachable,
            r"attic: its exporter is not connected \(lab1/attic/\*\); "
            r"plug: it has no NetworkService or NetworkSerialPort, only NetworkPowerPort$",
        ),
        ("desk?resource=eth1", BadAddress, r"desk has no NetworkService or \w+ named eth1; it has \w+ \(\w+\)"),
        ("desk?coordinator=127.0.0.1:1", BoardUnreachable, r"no labgrid coordinator answers at 127.0.0.1:1. Next: "),
        (f"desk?labgrid_python={sys.executable}", NotOnThisHost, r"has no labgrid .* Next: pip install 'qverify\[lab"),
        ("desk?labgrid_python=/bin/echo", BoardUnreachable, r"/bin/echo answered '/"),
        (
            "desk?labgrid_python=/bin/false",
            BoardUnreachable,
            r"the process that .* \(/bin/false\) ended with status 1$",
        ),
    ],
)
def test_what_cannot_be_had_is_said_in_one_line(site: Lab, address: str, kind: type[LinkError], said: str):
    with pytest.raises(kind, match=said):
        hold(address)


def test_a_killed_run_releases_its_place(site: Lab):
    run = qverify("boards", "console", "labgrid:desk")
    assert run.stdout is not None and b"board: hello" in run.stdout.readline() + run.stdout.readline()
    assert "desk" in site.holders()
    run.kill()
    run.communicate()
    assert until(lambda: site.holders() == {})
    assert until(lambda: list(records_folder().iterdir()) == [])


def test_ctrl_c_releases_a_place_and_a_reservation(site: Lab):
    run = qverify("boards", "console", "labgrid:desk")
    assert run.stdout is not None and b"board: hello" in run.stdout.readline() + run.stdout.readline()
    waits = qverify("boards", "check", "labgrid:desk", "--wait", "60")
    assert until(lambda: "waiting" in site.reservations())
    for one in (waits, run):
        one.send_signal(signal.SIGINT)
        assert one.wait(SOON_S) == 130
        one.communicate()
    assert site.holders() == {} and site.reservations() == []


def kill_holder(place: HeldPlace) -> None:
    """Ends the process that holds the place without a word, as a power failure of this host does."""
    os.kill(place._holder._stream.process_id, signal.SIGKILL)
    place._holder._stream.status(Deadline(SOON_S))


def test_what_a_dead_holder_left_is_released_by_the_next_run(site: Lab):
    with closing(hold("desk")) as dead:
        kill_holder(dead)
        assert site.holders() == {"desk": dead.identity}
        with closing(hold("desk")) as living:
            assert site.holders() == {"desk": living.identity}
            dead.close()
            assert site.holders() == {"desk": living.identity}
    assert list(records_folder().iterdir()) == []


def test_what_a_dead_holder_left_is_released_when_the_run_ends(site: Lab):
    with closing(hold("desk")) as dead:
        kill_holder(dead)
    assert site.holders() == {}


def test_release_stale_releases_dead_holders_only(site: Lab, capsys: pytest.CaptureFixture[str]):
    with closing(hold("desk")) as dead, closing(hold("shelf")) as living:
        kill_holder(dead)
        assert main(["boards", "release-stale"]) == 0
        said = f"released desk at {site.coordinator}, held by {dead.identity}, which has ended\n"
        assert capsys.readouterr().out == said
        assert site.holders() == {"shelf": living.identity}
        assert main(["boards", "release-stale"]) == 0
        assert capsys.readouterr().out == "nothing is held by a run that has ended\n"


def test_a_place_that_this_user_acquired_is_used_and_stays_acquired(
    site: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LG_USERNAME", "ann")
    site.client("-p", "desk", "acquire", user="ann")
    before = site.holders()
    try:
        with connect(f"labgrid:desk?cache={tmp_path}/cache", 30) as agent:
            assert agent.hello["lock"] == "held"
        assert site.holders() == before and before["desk"].endswith("/ann")
    finally:
        site.client("-p", "desk", "release", user="ann")


def test_a_reset_switches_the_power_of_the_place(
    site: Lab, board: Board, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The board is off, and its power switch starts it."""
    inventory = tmp_path / "boards.toml"
    inventory.write_text(f'[boards.lab]\nuri = "labgrid:desk?cache={tmp_path}/cache"\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(inventory))
    board.switched.clear()
    board.server.close()
    assert main(["boards", "reset", "lab", "--timeout", "60"]) == 0
    assert board.switched == ["/power/0", "/power/1"] and "lab is back after" in capsys.readouterr().out
    assert site.holders() == {}
    assert main(["boards", "reset", "labgrid:shelf", "--timeout", "60"]) == 3
    assert "power cycle' ended with status 1: " in capsys.readouterr().err and site.holders() == {}


def test_an_exporter_that_goes_does_not_keep_the_place(site: Lab, tmp_path: Path):
    with connect(f"labgrid:desk?cache={tmp_path}/cache", 30) as agent:
        site.kill("exporter")
        assert agent.refresh_hello()["lock"] == "held"
    assert site.holders() == {}
    with pytest.raises(BoardUnreachable, match=r"desk: its exporter is not connected"):
        hold("desk")
    site.start("exporter")
    hold("desk").close()


def test_a_coordinator_that_is_started_anew_ends_no_run(site: Lab, tmp_path: Path):
    """It has forgotten who holds what; the lock on the board has not."""
    address = f"labgrid:desk?cache={tmp_path}/cache&lock={tmp_path}/lock"
    with connect(address, 30) as agent:
        for name in ("exporter", "coordinator"):
            site.kill(name)
        for name in ("coordinator", "exporter"):
            site.start(name)
        assert site.holders() == {}
        with pytest.raises(BoardBusy, match="the board is in use by"):
            connect(address, 30)
        assert agent.refresh_hello()["lock"] == "held"
    assert main(["boards", "release-stale"]) == 0
    assert site.holders() == {} and list(records_folder().iterdir()) == []
