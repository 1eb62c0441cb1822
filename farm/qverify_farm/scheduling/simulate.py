"""Simulates a large lab in virtual time: the real scheduler, with boards and hosts that only take time."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from qverify_farm.scheduling.board_filter import BoardFilter
from qverify_farm.scheduling.queue import QueuedJob
from qverify_farm.scheduling.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class SimulatedLab:
    """The size and the speeds of a simulated lab.

    Attributes:
        boards: The number of boards of each type.
        hosts: The number of hosts that share the boards.
        slots: How many jobs a host prepares at a time.
        host_s: How long a host prepares a job.
        job_s: The shortest and the longest time that a job holds its board.
        dispatch_s: How long it takes until a free board is given its next job.
    """

    boards: dict[str, int]
    hosts: int = 50
    slots: int = 4
    host_s: float = 0.02
    job_s: tuple[float, float] = (5.0, 60.0)
    dispatch_s: float = 0.05


@dataclass(slots=True)
class SimulationResult:
    """The result of a simulation.

    Attributes:
        busy: The fraction of the boards' time in which jobs held them, while there was work for all boards.
        shares: The fraction of board time that each submitter got while all of them had jobs, by board type.
        longest_wait_s: The longest time that a free board waited while a job fitted it, by board type.
        done: The number of jobs, by board type.
        wall_s: The duration of the run in virtual time.
    """

    busy: float = 0.0
    shares: dict[str, dict[str, float]] = field(default_factory=dict)
    longest_wait_s: dict[str, float] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    wall_s: float = 0.0


class Simulation:
    """One run of a simulated lab. seed: determines the jobs' durations."""

    def __init__(self, lab: SimulatedLab, seed: int = 0) -> None:
        self._lab, self._random = lab, random.Random(seed)
        self._scheduler = Scheduler()
        self._type_of: dict[str, str] = {}
        self._host_of: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._type_of_job: dict[str, str] = {}
        self._intervals: list[tuple[float, float, str, str]] = []  # begin, end, board, submitter
        self._free_since: dict[str, float] = {}
        self._waits: dict[str, float] = defaultdict(float)
        for kind, count in lab.boards.items():
            for number in range(count):
                name = f"{kind}-{number:04d}"
                self._type_of[name], self._host_of[name] = kind, len(self._host_of) % lab.hosts
                self._scheduler.set_board(name, {"soc": kind}, True)
                self._free_since[name] = 0.0

    def submit(self, submitter: str, kind: str, count: int, priority: int = 0, age: float = 0.0) -> None:
        """Adds `count` jobs for boards of this type."""
        board_filter = BoardFilter.of((f"soc={kind}",))
        for number in range(count):
            job = QueuedJob(f"{submitter}-{kind}-{age}-{number}", submitter, board_filter, priority, age, number)
            self._seconds[job.id], self._type_of_job[job.id] = self._random.uniform(*self._lab.job_s), kind
            self._scheduler.add(job)

    def run(self) -> SimulationResult:
        """Runs every job and returns the result."""
        now, ends = 0.0, list[tuple[float, str, str, float, str]]()
        slots = {host: [0.0] * self._lab.slots for host in range(self._lab.hosts)}
        while True:
            for job, board in self._scheduler.assign(now):
                self._waits[self._type_of[board]] = max(
                    self._waits[self._type_of[board]], now - self._free_since[board]
                )
                host = slots[self._host_of[board]]
                ready = max(now + self._lab.dispatch_s, heapq.heappop(host)) + self._lab.host_s
                heapq.heappush(host, ready)
                heapq.heappush(ends, (ready + self._seconds[job.id], job.id, board, ready, job.submitter))
            if not ends:
                return self._result(now)
            now, job_id, board, begun, submitter = heapq.heappop(ends)
            self._scheduler.release(job_id, now - begun)
            self._free_since[board] = now
            self._intervals.append((begun, now, board, submitter))

    def _result(self, wall_s: float) -> SimulationResult:
        done: dict[str, int] = defaultdict(int)
        for kind in self._type_of_job.values():
            done[kind] += 1
        crowded = min(self._last_begin(kind) for kind in self._lab.boards)
        used = sum(max(0.0, min(end, crowded) - begin) for begin, end, _, _ in self._intervals)
        busy = used / (crowded * len(self._type_of)) if crowded else 0.0
        return SimulationResult(busy, self._shares(), dict(self._waits), dict(done), wall_s)

    def _last_begin(self, kind: str) -> float:
        """Returns when the last job of a board type began: until then, every board of the type had a job to run."""
        return max((begin for begin, _, board, _ in self._intervals if self._type_of[board] == kind), default=0.0)

    def _shares(self) -> dict[str, dict[str, float]]:
        return {kind: self._shares_of(kind) for kind in self._lab.boards}

    def _shares_of(self, kind: str) -> dict[str, float]:
        rows = [row for row in self._intervals if self._type_of[row[2]] == kind]
        submitters = {row[3] for row in rows}
        last_begins = (max(row[0] for row in rows if row[3] == submitter) for submitter in submitters)
        until = min(last_begins, default=0.0)  # all submitters have jobs for the type until then
        seconds = {
            submitter: _total_seconds(row for row in rows if row[3] == submitter and row[1] <= until)
            for submitter in sorted(submitters)
        }
        total = sum(seconds.values()) or 1.0
        return {submitter: value / total for submitter, value in seconds.items()}


def _total_seconds(rows: Iterable[tuple[float, float, str, str]]) -> float:
    return sum(end - begin for begin, end, _, _ in rows)


def large_lab() -> SimulatedLab:
    """Returns a lab of 1,000 boards on 50 hosts: six board types, the commonest with 400 boards, the rarest with 10."""
    return SimulatedLab({"j5": 400, "rv1126": 250, "imx8": 200, "tda4": 100, "hi3519": 40, "s390x": 10})


def simulate(lab: SimulatedLab, jobs_per_board: int = 20, seed: int = 0) -> SimulationResult:
    """Returns the result of two submitters with jobs for all boards of a lab; the first submits earlier and three times as
    many."""
    simulation = Simulation(lab, seed)
    for kind, count in lab.boards.items():
        simulation.submit("ann", kind, count * jobs_per_board * 3 // 4, age=1.0)
        simulation.submit("bob", kind, count * jobs_per_board // 4, age=2.0)
    return simulation.run()
