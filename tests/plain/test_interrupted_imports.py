"""Ctrl-C while a C extension is imported: the import ends first, for what it does not expect may crash the process."""

from __future__ import annotations

import os
import signal
import time
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from types import ModuleType

import pytest
from qverify.cli import main
from qverify.cli.interrupts import Interrupts

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer that interrupts on this system")
done: list[str] = []


def press() -> None:
    signal.raise_signal(signal.SIGINT)
    done.append("imported")


class Extension(ExtensionFileLoader):
    """An extension during whose import somebody presses Ctrl-C."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        press()
        return ModuleType(spec.name)


class Source(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        press()


@pytest.mark.parametrize(("loader", "ended"), [(Extension, ["imported"]), (Source, [])])
def test_an_extension_is_imported_whole_and_nothing_else_is_waited_for(
    loader: type[Extension | Source], ended: list[str]
) -> None:
    done.clear()
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        one = loader("one", "one")
        if isinstance(one, Extension):
            one.create_module(ModuleSpec("one", one))
        else:
            one.exec_module(ModuleType("one"))
        time.sleep(5)
        done.append("not interrupted")
    assert done == ended and interrupts.first_signal == signal.SIGINT


def test_one_that_is_raised_again_while_the_first_is_reported_ends_the_command_as_the_first(monkeypatch, capsys):
    """The alarm may come between the end of the command and the moment from which signals are ignored."""
    ignore, times = Interrupts.ignore_further, []

    def once_more(interrupts: Interrupts) -> None:
        times.append(1)
        if len(times) == 1:
            raise KeyboardInterrupt
        ignore(interrupts)

    def interrupted(name: str, words: list[str]) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("not reached")

    monkeypatch.setattr(Interrupts, "ignore_further", once_more)
    monkeypatch.setattr(main, "_run", interrupted)
    assert main.main(["chips"]) == 128 + signal.SIGTERM
    assert capsys.readouterr().err == "qverify: interrupted\n" and len(times) == 2
