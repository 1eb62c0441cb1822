"""Decides which waiting job each free board gets. There is no clock, database or thread here: the caller passes the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qverify_farm.scheduling.board_filter import BoardFilter
from qverify_farm.scheduling.fair_share import FairShare
from qverify_farm.scheduling.queue import Queue, QueuedJob


@dataclass(slots=True)
class FarmBoard:
    """A board as the scheduler sees it.

    Attributes:
        usable: It is reachable, and neither drained nor quarantined.
        job: The job that holds it, or None.
        rests_until: The time before which it gets no job, since somebody else is using it.
        share: The shares of the submitters in its time.
        serves: The board filters of waiting jobs that it fits.
    """

    name: str
    tags: Mapping[str, str]
    usable: bool = True
    job: QueuedJob | None = None
    rests_until: float = float("-inf")
    share: FairShare = field(default_factory=FairShare)
    serves: set[BoardFilter] = field(default_factory=set)

    def is_free(self, now: float) -> bool:
        return self.usable and self.job is None and now >= self.rests_until


class Scheduler:
    """Assigns to each free board the next job that it fits.

    Submitters get equal shares of each board's time. Among the jobs of one submitter the order is: larger priority, older
    run, fewer boards that fit, place in the suite. No job is passed over for ever, since a free board takes any job that
    fits it, whoever waits for other boards. If `window` is given, at most that many jobs run at a time.
    """

    def __init__(self, window: int | None = None) -> None:
        self.queue = Queue()
        self.boards: dict[str, FarmBoard] = {}
        self.held_back: frozenset[tuple[str, str]] = frozenset()  # accounts whose jobs wait, whatever board is free
        self._window = window
        self._running: dict[str, FarmBoard] = {}
        self._fitting: dict[BoardFilter, set[str]] = {}

    def set_board(self, name: str, tags: Mapping[str, str], usable: bool) -> None:
        """Adds a board or changes its properties. A job that holds it is not affected."""
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
        for board_filter in self._fitting:
            self._match(board_filter, board)

    def remove_board(self, name: str) -> None:
        """Forgets a board that holds no job."""
        board = self.boards[name]
        assert board.job is None, f"{name} holds a job"
        self._forget(board)
        del self.boards[name]

    def rest(self, name: str, until: float) -> None:
        """Assigns no job to a board until this time."""
        self.boards[name].rests_until = until

    def add(self, job: QueuedJob) -> None:
        """Adds a waiting job."""
        if job.board_filter not in self._fitting:
            self._fitting[job.board_filter] = set()
            for board in self.boards.values():
                self._match(job.board_filter, board)
        self.queue.add(job)

    def remove(self, job: str) -> None:
        """Removes a waiting job. A job that is not waiting is ignored."""
        self.queue.remove(job)

    def fitting(self, board_filter: BoardFilter) -> set[str]:
        """Returns the names of the boards that pass the filter, usable or not."""
        if board_filter in self._fitting:
            return set(self._fitting[board_filter])
        return {board.name for board in self.boards.values() if board_filter.fits(board.name, board.tags)}

    def running(self) -> dict[str, str]:
        """Returns the name of the board that each running job holds, by job id."""
        return {job: board.name for job, board in self._running.items()}

    def assign(self, now: float) -> list[tuple[QueuedJob, str]]:
        """Assigns jobs to free boards. Returns each job with the name of its board, which it holds until release()."""
        assigned = []
        for board in self.boards.values():
            if self._window is not None and len(self._running) >= self._window:
                break
            if board.serves and board.is_free(now) and (job := self._next_for(board)) is not None:
                self.queue.remove(job.id)
                board.share.begin(job.submitter)
                board.job = job
                self._running[job.id] = board
                assigned.append((job, board.name))
        return assigned

    def release(self, job: str, board_seconds: float) -> None:
        """Frees the board of a job. board_seconds: how long the job held it."""
        board = self._running.pop(job)
        assert board.job is not None
        board.share.end(board.job.submitter, board_seconds)
        board.job = None

    def _next_for(self, board: FarmBoard) -> QueuedJob | None:
        best: dict[str, tuple[tuple[int, float, int, int], QueuedJob]] = {}
        for board_filter in list(board.serves):
            groups = self.queue.of(board_filter)
            if not groups:
                self._drop(board_filter)
                continue
            width = len(self._fitting[board_filter])
            for submitter, group in groups.items():
                job = self._first_not_tried(group, board)
                if job is not None:
                    rank = (-job.priority, job.age, width, job.number)
                    if submitter not in best or rank < best[submitter][0]:
                        best[submitter] = (rank, job)
        return best[board.share.next_of(best)][1] if best else None

    def _first_not_tried(self, group: list[QueuedJob], board: FarmBoard) -> QueuedJob | None:
        """Returns the next job of the group for this board, or None. A job that was INCONCLUSIVE on this board is left out
        while another board could take it, and so is one of an account that is held back."""
        fitting = (job for job in reversed(group) if job.account not in self.held_back)
        return next((job for job in fitting if not self._has_better(job, board)), None)

    def _has_better(self, job: QueuedJob, board: FarmBoard) -> bool:
        if board.name not in job.tried:
            return False
        untried_boards = (self.boards[name] for name in self._fitting[job.board_filter] if name not in job.tried)
        return any(untried.usable for untried in untried_boards)

    def _match(self, board_filter: BoardFilter, board: FarmBoard) -> None:
        if board_filter.fits(board.name, board.tags):
            self._fitting[board_filter].add(board.name)
            board.serves.add(board_filter)

    def _forget(self, board: FarmBoard) -> None:
        for board_filter in board.serves:
            self._fitting[board_filter].discard(board.name)
        board.serves = set()

    def _drop(self, board_filter: BoardFilter) -> None:
        """Forgets a board filter that no waiting job has any more."""
        for name in self._fitting.pop(board_filter):
            self.boards[name].serves.discard(board_filter)
