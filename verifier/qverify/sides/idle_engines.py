"""Children that wait for their next request: starting one costs a fifth of a second of processor time, a small model far
less. What a child computes depends on its request alone, so any caller in this process may use it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qverify_agents.signals_held import signals_held

from qverify.sides.engine_child import EngineChild
from qverify.sides.forked_process import fork_program, may_fork

MOST_REQUESTS = 200  # of one child, so that memory which an engine does not give back is bounded
MOST_IDLE = 2  # children of one program that wait
_LOCK = threading.Lock()
_idle: dict[tuple[object, ...], list[tuple[EngineChild, int]]] = {}  # and how many times each was used


def start_copy(program: Path) -> None:
    """Starts a child that runs `program` as a copy of this process, for the first caller of borrowed(), where that is possible.
    Call it in a process of the command line, once what the program imports is loaded, and before any of it has computed."""
    key = _key(program)
    if key in _idle or not may_fork():
        return
    with suppress(OSError), signals_held():  # then borrowed() starts one
        _idle[key] = [(EngineChild(program, process=fork_program(program)), 0)]


@contextmanager
def borrowed(program: Path) -> Iterator[EngineChild]:
    """Yields a child that runs `program`, for this caller alone until the block ends. If the block raises anything, the child
    ends, because an answer may be outstanding."""
    key = _key(program)
    with _LOCK:
        idle = _idle.get(key)
        child, uses = idle.pop() if idle else (EngineChild(program), 0)
    try:
        yield child
    except BaseException:
        child.close()
        raise
    with _LOCK:
        idle = _idle.setdefault(key, [])
        if uses + 1 < MOST_REQUESTS and len(idle) < MOST_IDLE:
            idle.append((child, uses + 1))
            return
    child.close()


def _key(program: Path) -> tuple[object, ...]:
    """Returns what a child takes from this process when it starts; a fork has children of its own."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_CURRENT")}
    return os.getpid(), program, hash(frozenset(variables.items()))
