"""A labgrid coordinator and exporter on loopback, in a virtual environment that is made once in the cache folder."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.benchmarks.engine_pythons import NoEngine, make_environment
from tests.links.servers import free_port

VERSION = "26.0.1"  # of labgrid
WATCHER = """
import grpc, json, sys
from labgrid.remote.generated import labgrid_coordinator_pb2 as m, labgrid_coordinator_pb2_grpc as g
for line in sys.stdin:
    with grpc.insecure_channel(sys.argv[1]) as channel:
        stub = g.CoordinatorStub(channel)
        places = stub.GetPlaces(m.GetPlacesRequest(), wait_for_ready=True, timeout=20).places
        states = [r.state for r in stub.GetReservations(m.GetReservationsRequest(), timeout=20).reservations]
    names = ["waiting", "allocated", "acquired", "expired", "invalid"]
    print(json.dumps([{p.name: p.acquired for p in places if p.acquired}, [names[s] for s in states]]), flush=True)
"""
Places = dict[str, tuple[str, dict[str, str]]]
START_S = 30


class NoLabgrid(Exception):
    """Why there is none on this machine."""


def labgrid_python(cache: Path) -> Path:
    """Returns the Python of a virtual environment with labgrid, whose fork of pyserial must not meet pyserial. Raises NoLabgrid."""
    try:
        return make_environment(cache, f"labgrid-{VERSION}", (f"labgrid=={VERSION}",))
    except NoEngine as error:
        raise NoLabgrid(str(error)) from None


class Lab:
    """A coordinator with places, and an exporter with their resources. places: by name, the group of resources that belongs to
    each, and its tags. resources: by group, as in the exporter's file."""

    def __init__(self, python: Path, folder: Path, places: Places, resources: dict[str, Any]):
        self.python, self.folder = python, folder
        self.coordinator = f"127.0.0.1:{free_port()}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(exist_ok=True)
        kept = {
            name: {"tags": tags, "matches": [{"exporter": "lab1", "group": group, "cls": "*"}]}
            for name, (group, tags) in places.items()
        }
        (folder / "places.yaml").write_text(json.dumps(kept))
        (folder / "exporter.yaml").write_text(json.dumps(resources))
        self.start("coordinator")
        self.start("exporter")

    def start(self, name: str) -> None:
        """Starts the coordinator or the exporter, and waits until it says that it is there."""
        exporter = ["-c", self.coordinator, "-n", "lab1", "--hostname", "127.0.0.1", "exporter.yaml"]
        words = {"coordinator": ["-l", self.coordinator], "exporter": exporter}[name]
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            self._processes[name] = process = subprocess.Popen(
                [self.python.with_name(f"labgrid-{name}"), *words],
                cwd=self.folder,
                stdout=out,
                stderr=out,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        said, end = {"coordinator": "listening on", "exporter": "creating poll task"}[name], time.monotonic() + START_S
        while said not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"labgrid-{name} does not start: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.02)

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.communicate()

    def client(self, *words: str, user: str = "somebody", host: str = "") -> str:
        """Returns what labgrid's own client prints."""
        done = subprocess.run(
            [self.python.with_name("labgrid-client"), "-x", self.coordinator, *words],
            env={**os.environ, "LG_USERNAME": user, **({"LG_HOSTNAME": host} if host else {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    def holders(self) -> dict[str, str]:
        """Returns who holds each place that is held, as HOST/USER."""
        return dict(self._asked()[0])

    def reservations(self) -> list[str]:
        """Returns the state of every reservation."""
        return list(self._asked()[1])

    def _asked(self) -> Any:
        if "watcher" not in self._processes:
            self._processes["watcher"] = subprocess.Popen(
                [self.python, "-c", WATCHER, self.coordinator], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        ends = self._processes["watcher"]
        assert ends.stdin is not None and ends.stdout is not None
        ends.stdin.write(b"\n")
        ends.stdin.flush()
        return json.loads(ends.stdout.readline())

    def close(self) -> None:
        for name in [*self._processes][::-1]:
            with contextlib.suppress(ProcessLookupError):
                self.kill(name)


@contextlib.contextmanager
def lab(python: Path, folder: Path, places: Places, resources: dict[str, Any]) -> Iterator[Lab]:
    made = Lab(python, folder, places, resources)
    try:
        yield made
    finally:
        made.close()
