"""qverify: does the board compute what the host says it should?

    report = qverify.verify(["quant.onnx", "model.bin"], board="local", inputs="photo.npy")
    print(report.verdict)

The functions are loaded when they are first used. `__init__.pyi` has their types; docs/reference/python.md is the
reference."""

import sys
from types import ModuleType

__version__ = "0.1.0"
_HOMES = {  # the public names
    "verify": "qverify.api.calls",
    "compile": "qverify.api.calls",
    "compare": "qverify.api.calls",
    "triage": "qverify.api.calls",
    "replay": "qverify.api.calls",
    "Report": "qverify.api.results",
    "Triage": "qverify.api.results",
    "Compiled": "qverify.api.results",
    "errors": "qverify.errors",
}
__all__ = ["__version__", *_HOMES]


class _Package(ModuleType):
    """The package. `compare` and `triage` are functions of it and rooms in it as well: importing such a room does not
    replace the function, and `from qverify.compare import ...` finds the room."""

    def __getattr__(self, name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module = import_module(home)
        found = module if home.rpartition(".")[2] == name else getattr(module, name)
        super().__setattr__(name, found)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in ("compare", "triage") and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
