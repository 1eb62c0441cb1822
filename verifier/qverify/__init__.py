"""qverify: does the board compute what the host says it should?

    report = qverify.verify(["quant.onnx", "model.bin"], board="local", inputs="photo.npy")
    print(report.verdict)

The functions are loaded when they are first used. `__init__.pyi` has their types; docs/reference/python.md is the
reference."""

import sys
from types import ModuleType

__version__ = "0.2.0"
_MODULE_OF = {  # public name: the module that defines it
    "verify": "qverify.api.calls",
    "compile": "qverify.api.calls",
    "compare": "qverify.api.calls",
    "triage": "qverify.api.calls",
    "replay": "qverify.api.calls",
    "quantize": "qverify.api.more_calls",
    "inputs_diff": "qverify.api.more_calls",
    "outputs_diff": "qverify.api.more_calls",
    "report_diff": "qverify.api.more_calls",
    "report_matrix": "qverify.api.more_calls",
    "suite": "qverify.api.more_calls",
    "Report": "qverify.api.results",
    "Triage": "qverify.api.results",
    "Compiled": "qverify.api.results",
    "Quantized": "qverify.api.tool_results",
    "InputsDiff": "qverify.api.tool_results",
    "OutputsDiff": "qverify.api.tool_results",
    "ReportDiff": "qverify.api.tool_results",
    "ReportMatrix": "qverify.api.tool_results",
    "Suite": "qverify.api.tool_results",
    "errors": "qverify.errors",
}
__all__ = ["__version__", *_MODULE_OF]


class _Package(ModuleType):
    """The type of this package's module object, which loads the public names when they are first used.

    `compare` and `triage` are both functions of the package and subpackages in it. Importing such a subpackage does not
    replace the function, and `from qverify.compare import ...` finds the subpackage."""

    def __getattr__(self, name: str) -> object:
        module_name = _MODULE_OF.get(name)
        if module_name is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module = import_module(module_name)
        value = module if module_name.rpartition(".")[2] == name else getattr(module, name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in ("compare", "triage") and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
