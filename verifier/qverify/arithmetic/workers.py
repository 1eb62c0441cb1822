"""Runs blocks of a node's work on all usable cores: numpy and BLAS release the interpreter lock, so threads are
enough."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

WORKER = "qverify-block"  # starts the names of the pool's threads


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(core_count(), WORKER)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def core_count() -> int:
    """Returns the number of cores this process may run on, at most eight: more gain nothing at these sizes."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class _Limited(threading.local):
    """Whether this thread has limited BLAS."""

    inside = False


_LIMITED = _Limited()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limits BLAS to one thread while it is entered: its threads would compete with the blocks' (measured: two gain
    nothing). Entered again within itself it does nothing, which costs nothing."""
    if _LIMITED.inside:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        _LIMITED.inside = True
        try:
            yield
        finally:
            _LIMITED.inside = False


def submit(call: Callable[[], Any], inline: bool = False) -> Future[Any]:
    """Runs call on a worker, or at once if inline. A worker's exception is raised by the future's result()."""
    if inline:
        done: Future[Any] = Future()
        done.set_result(call())
        return done
    return _pool().submit(call)


def run_blocks(blocks: Sequence[Callable[[], None]]) -> None:
    """Runs all blocks, several at the same time and in any order; they must write to disjoint memory. Raises the first
    error. Blocks of a block run one after the other: workers that waited for workers would wait for ever."""
    if len(blocks) == 1 or threading.current_thread().name.startswith(WORKER):
        for block in blocks:
            _quietly(block)
        return
    for done in [submit(partial(_quietly, block)) for block in blocks]:
        done.result()


def _quietly(block: Callable[[], None]) -> None:
    """Runs block without numpy's warnings of infinities and NaN, whose setting is one of each thread."""
    with np.errstate(all="ignore"):
        block()


def runs(count: int, largest: int) -> list[slice]:
    """Returns range(count) cut into equal runs of at most `largest` (at least 1); at least one per core if there are
    several, none of nothing."""
    if not count:
        return []
    parts = -(-count // max(1, min(largest, count)))
    if parts > 1:
        parts = -(-parts // core_count()) * core_count()
    step = -(-count // parts)
    return [slice(first, min(first + step, count)) for first in range(0, count, step)]
