"""Runs the blocks of a node's work on all usable cores, in threads, because numpy and BLAS release the interpreter
lock."""

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


class _Limited(threading.local):
    """A flag for each thread: whether it has limited BLAS to one thread."""

    inside = False


_LIMITED = _Limited()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limits BLAS to one thread, whose threads would compete with those of the blocks (measured: two are not faster). A
    nested use does nothing."""
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
    """Runs the call on a worker, or at once if `inline`. An exception in a worker is raised by result() of the
    future."""
    if inline:
        future: Future[Any] = Future()
        future.set_result(call())
        return future
    return _pool().submit(call)


def run_blocks(blocks: Sequence[Callable[[], None]]) -> None:
    """Runs all blocks, several at the same time and in any order. They must write to disjoint memory. Raises the first
    error. Blocks that are started by a block run one after the other, because workers that wait for workers could wait
    forever."""
    if len(blocks) == 1 or threading.current_thread().name.startswith(WORKER):
        for block in blocks:
            _run_without_warnings(block)
        return
    for future in [submit(partial(_run_without_warnings, block)) for block in blocks]:
        future.result()


def _run_without_warnings(block: Callable[[], None]) -> None:
    """Runs the block without numpy's warnings of infinities and NaN. (The setting applies to the current thread
    only.)"""
    with np.errstate(all="ignore"):
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
