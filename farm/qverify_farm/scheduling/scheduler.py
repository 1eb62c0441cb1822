"""Who is next: gives waiting jobs to free boards. No clock, no database, no thread: who calls it tells the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qverify_farm.scheduling.fair_share import FairShare
from qverify_farm.scheduling.queue import Queue, QueuedJob
from qverify_farm.scheduling.wanted import Wanted


@dataclass(slots=True)
class FarmBoard:
    """A board as the scheduler sees it. usable: reached and not quarantined. job: that holds it. rests_until: time before
    which it gets none, since others hold it."""

    name: str
    tags: Mapping[str, str]
    usable: bool = True
    job: QueuedJob | None = None
    rests_until: float = float("-inf")
    share: FairShare = field(default_factory=FairShare)
    serves: set[Wanted] = field(default_factory=set)  # what it fits, of what jobs want

    def is_free(self, now: float) -> bool:
        return self.usable and self.job is None and now >= self.rests_until


class Scheduler:
    """Gives each free board the next job that it fits. Between submitters: equal shares of each board's time. Of one
    submitter: the larger priority, then the older run, then what fewer boards fit, then the order in the suite. Nobody is
    passed over for ever: a board that is free takes what fits it, whoever else waits for other boards. At most `window`
    jobs are given out at a time, if that is given."""

    def __init__(self, window: int | None = None) -> None:
        self.queue = Queue()
        self.boards: dict[str, FarmBoard] = {}
        self._window = window
        self._running: dict[str, FarmBoard] = {}
        self._fitting: dict[Wanted, set[str]] = {}

    def set_board(self, name: str, tags: Mapping[str, str], usable: bool) -> None:
        """Adds a board, or tells what is new of it; a job that holds it goes on."""
        board = self.boards.get(name)
        if board is None:
            board = self.boards[name] = FarmBoard(name, dict(tags), usable)
        elif dict(board.tags) != dict(tags):
            board.tags = dict(tags)
            self._forget(board)
        else:
            board.usable = usable
            return
        board.usable = usable
        for wanted in self._fitting:
            self._match(wanted, board)

    def remove_board(self, name: str) -> None:
        """Forgets a board that holds no job."""
        board = self.boards[name]
        assert board.job is None, f"{name} holds a job"
        self._forget(board)
        del self.boards[name]

    def rest(self, name: str, until: float) -> None:
        """Keeps a board from jobs until this time."""
        self.boards[name].rests_until = until

    def add(self, job: QueuedJob) -> None:
        """Adds a job that waits."""
        if job.wanted not in self._fitting:
            self._fitting[job.wanted] = set()
            for board in self.boards.values():
                self._match(job.wanted, board)
        self.queue.add(job)

    def remove(self, job: str) -> None:
        """Removes a job that waits; nothing happens to others."""
        self.queue.remove(job)

    def fitting(self, wanted: Wanted) -> set[str]:
        """Returns the names of the boards that fit, usable or not."""
        if wanted in self._fitting:
            return set(self._fitting[wanted])
        return {board.name for board in self.boards.values() if wanted.fits(board.name, board.tags)}

    def running(self) -> dict[str, str]:
        """Returns the boards of the jobs that hold one, by job."""
        return {job: board.name for job, board in self._running.items()}

    def assign(self, now: float) -> list[tuple[QueuedJob, str]]:
        """Returns the jobs that begin now, each with its board, which it holds until release()."""
        begun = []
        for board in self.boards.values():
            if self._window is not None and len(self._running) >= self._window:
                break
            if board.serves and board.is_free(now) and (job := self._next_for(board)) is not None:
                self.queue.remove(job.id)
                board.share.begin(job.submitter)
                board.job = job
                self._running[job.id] = board
                begun.append((job, board.name))
        return begun

    def release(self, job: str, board_seconds: float) -> None:
        """Ends a job's hold of its board. board_seconds: for how long it held it."""
        board = self._running.pop(job)
        assert board.job is not None
        board.share.end(board.job.submitter, board_seconds)
        board.job = None

    def _next_for(self, board: FarmBoard) -> QueuedJob | None:
        best: dict[str, tuple[tuple[int, float, int, int], QueuedJob]] = {}
        for wanted in list(board.serves):
            groups = self.queue.of(wanted)
            if not groups:
                self._drop(wanted)
                continue
            width = len(self._fitting[wanted])
            for submitter, group in groups.items():
                job = self._first_not_tried(group, board)
                if job is not None:
                    rank = (-job.priority, job.age, width, job.number)
                    if submitter not in best or rank < best[submitter][0]:
                        best[submitter] = (rank, job)
        return best[board.share.next_of(best)][1] if best else None

    def _first_not_tried(self, group: list[QueuedJob], board: FarmBoard) -> QueuedJob | None:
        """Returns the first job of the group that this board should have: not one that was INCONCLUSIVE on it while
        another board could take it."""
        return next((job for job in reversed(group) if not self._has_better(job, board)), None)

    def _has_better(self, job: QueuedJob, board: FarmBoard) -> bool:
        if board.name not in job.tried:
            return False
        others = (self.boards[name] for name in self._fitting[job.wanted] if name not in job.tried)
        return any(other.usable for other in others)

    def _match(self, wanted: Wanted, board: FarmBoard) -> None:
        if wanted.fits(board.name, board.tags):
            self._fitting[wanted].add(board.name)
            board.serves.add(wanted)

    def _forget(self, board: FarmBoard) -> None:
        for wanted in board.serves:
            self._fitting[wanted].discard(board.name)
        board.serves = set()

    def _drop(self, wanted: Wanted) -> None:
        """Forgets which boards fit what nobody wants any more."""
        for name in self._fitting.pop(wanted):
            self.boards[name].serves.discard(wanted)
