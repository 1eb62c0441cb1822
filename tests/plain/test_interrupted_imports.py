"""Ctrl-C while a C extension is imported: the import ends first, for what it does not expect may crash the process."""

from __future__ import annotations

import signal
import time
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from types import ModuleType

import pytest
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
