"""Runs a complete service over boards of this process, on a free loopback port."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import qverify.example
import uvicorn
from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.engines.in_process import InProcessEngine
from qverify_farm.service.app import create_app
from qverify_farm.service.farm import Farm, open_farm
from qverify_farm.service.settings import ServiceSettings
from qverify_farm.service.triage_engine import TriageEngine
from qverify_farm.store.artifacts import open_artifacts
from qverify_farm.store.boards import all_boards
from qverify_farm.store.database import open_database
from qverify_farm.store.states import FREE
from qverify_farm.ui.routes import add_pages
from qverify_farm.work.worker import JobWorker

MODEL = str(Path(next(iter(qverify.example.__path__))) / "digits_quant.onnx")
CULPRIT = "relu2_QuantizeLinear_Output"
BOARDS = {"desk": "local", "wrong": f"faulty:local?fault=bitflip@{CULPRIT}"}


def _free_boards(farm: Farm) -> set[str]:
    with farm.database.read() as session:
        return {board.name for board in all_boards(session) if board.state == FREE}


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, Farm]]:
    """Runs a service with pages on a free loopback port, and yields its address when its boards are free."""
    artifacts, settings = open_artifacts(str(folder / "artifacts")), ServiceSettings()
    boards = {name: ReachedBoard(name, address, {"soc": "x"}, "here") for name, address in BOARDS.items()}
    engine = InProcessEngine(boards, JobWorker(folder=folder / "worker"))
    engine_with_lanes = TriageEngine(engine, artifacts, folder / "triage", 1)
    farm = open_farm(open_database(str(folder / "farm.db"), "a test"), artifacts, engine_with_lanes, settings)
    app = create_app(farm)
    add_pages(app)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            end = time.monotonic() + 30
            while not (server.started and _free_boards(farm) >= set(BOARDS)):
                assert time.monotonic() < end and thread.is_alive(), f"free after 30 s: {_free_boards(farm)}"
                time.sleep(0.02)
            yield url, farm
        finally:
            server.should_exit = True
            thread.join(30)
            farm.close()
