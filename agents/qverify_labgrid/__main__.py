"""Runs the package from its folder, in a Python in which qverify need not be installed."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

NAME = "qverify_labgrid"

if __name__ == "__main__":
    folder = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if path and Path(path).resolve() != folder]
    spec = spec_from_file_location(NAME, folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert spec is not None and spec.loader is not None
    sys.modules[NAME] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
    sys.exit(import_module(f"{NAME}.holding").main())
