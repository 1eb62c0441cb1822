"""Runs the blocks of a node's work on all usable cores, in threads, because numpy and BLAS release the interpreter
lock."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

WORKER = "qverify-block"  # prefix of the names of the pool's threads


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(core_count(), WORKER)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def core_count() -> int:
    """Returns the number of cores that this process may use, at most eight: more are not faster at these sizes."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class _State(threading.local):
    """Flags for each thread: whether it has limited BLAS to one thread, and whether it runs blocks."""

    limited = False
    in_blocks = False


_STATE = _State()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limits BLAS to one thread, whose threads would compete with those of the blocks (measured: two are not faster). A
    nested use does nothing."""
    if _STATE.limited:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        _STATE.limited = True
        try:
            yield
        finally:
            _STATE.limited = False


def submit(call: Callable[[], Any], inline: bool = False) -> Future[Any]:
    """Runs the call on a worker, or at once if `inline`. An exception in a worker is raised by result() of the
    future."""
    if inline:
        future: Future[Any] = Future()
        future.set_result(call())
        return future
    return _pool().submit(call)


def run_blocks(blocks: Sequence[Callable[[], None]]) -> None:
    """Runs all blocks, several at the same time and in any order. They must write to disjoint memory. Raises the first
    error. Blocks that are started by a block run one after the other.

    The calling thread takes part. Workers are asked once, and not for each block, because waking a thread takes longer
    than a small block (measured: 30 us); a worker that has not begun when all blocks are taken is not waited for."""
    waiting = deque(blocks)
    if len(waiting) < 2 or _STATE.in_blocks or threading.current_thread().name.startswith(WORKER):
        _run_waiting(waiting)
        return
    helpers = [_pool().submit(_run_waiting, waiting) for _ in range(min(core_count(), len(blocks)) - 1)]
    _STATE.in_blocks = True
    try:
        _run_waiting(waiting)
    finally:
        _STATE.in_blocks = False
        waiting.clear()
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()


def _run_waiting(waiting: deque[Callable[[], None]]) -> None:
    """Takes and runs blocks until none is left, without numpy's warnings of infinities and NaN. (The setting applies to
    the current thread only.)"""
    with np.errstate(all="ignore"):
        while True:
            try:
                block = waiting.popleft()
            except IndexError:
                return
            block()


def split_range(count: int, largest: int) -> list[slice]:
    """Returns range(count) cut into equal runs of at most `largest` (at least 1) elements, and [] for a count of 0. If
    there are several runs, there is at least one per core."""
    if not count:
        return []
    parts = -(-count // max(1, min(largest, count)))
    if parts > 1:
        parts = -(-parts // core_count()) * core_count()
    step = -(-count // parts)
    return [slice(first, min(first + step, count)) for first in range(0, count, step)]
