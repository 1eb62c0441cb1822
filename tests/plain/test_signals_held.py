"""A signal that arrives while a process is being started is handled once the process is known, and so ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from qverify.cli.interrupts import Interrupts
from qverify.session.triage.run_command import run_to_end
from qverify.sides import engine_process
from qverify.sides.reference_variants import other_interpreter
from qverify_agents import power
from qverify_agents.process_stream import ProcessStream
from qverify_agents.signals_held import signals_held
from qverify_agents.ssh.proxy_command import ProxyCommand

SLEEP = "sleep 60"


def _engine(folder: Path) -> None:
    choice = engine_process.EngineChoice(python=sys.executable)
    engine_process._run_program(["/bin/sh", "-c", SLEEP], folder, choice, 1 << 20)


def _interpreter(folder: Path) -> None:
    interpreter = object.__new__(other_interpreter.OtherInterpreter)
    interpreter._words = ["/bin/sh", "-c", SLEEP]
    with interpreter._running(folder):
        raise AssertionError("not interrupted")


STARTERS: dict[str, Callable[[Path], Any]] = {
    "the command that resets a board": lambda _: power._run_program(["/bin/sh", "-c", SLEEP], 60, os.environ),
    "the user's command of triage": lambda _: run_to_end(["/bin/sh", "-c", SLEEP], 60),
    "an agent": lambda _: ProcessStream(["/bin/sh", "-c", SLEEP]),
    "an agent by threads": lambda _: ProcessStream(["/bin/sh", "-c", SLEEP], threads=True),
    "a ProxyCommand": lambda _: ProxyCommand.start(SLEEP),
    "another engine": _engine,
    "another interpreter": _interpreter,
}


@pytest.fixture
def heard_hangup() -> Iterator[None]:
    """SIGHUP is not ignored, as it is in tests that nohup started."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heard_hangup")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("name", STARTERS)
def test_what_is_started_when_a_signal_arrives_is_ended(
    name: str, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **options: Any):
            super().__init__(*words, **options)
            started.append(self)
            signal.raise_signal(number)  # nobody but us has this object yet

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        STARTERS[name](tmp_path)
    assert interrupts.first_signal == number
    (process,) = started
    assert process.returncode is not None and process.returncode < 0
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_each_signal_is_handled_once_in_the_order_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    hangs_up = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_held():
            for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGTERM):  # the first is ignored, and stays so
                signal.raise_signal(number)
            assert not heard and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert heard == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert len(heard) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, hangs_up)


def test_an_error_inside_is_not_lost_to_a_signal_and_other_threads_hold_nothing() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, signals_held():
        signal.raise_signal(signal.SIGINT)
        raise FileNotFoundError("no such program")
    assert isinstance(caught.value.__context__, FileNotFoundError)
    handlers = []

    def in_a_thread() -> None:
        with signals_held():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]
