"""Build hook: the board's binaries are in the package and current, or are built now with the compiler that comes from PyPI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = Path(__file__).resolve().parent / "board_runtime" / "build.py"
COMPILER = "ziglang==0.17.0"


def current() -> bool:
    return subprocess.run([sys.executable, str(BUILD), "--check"], capture_output=True).returncode == 0


class BoardRuntimeHook(BuildHookInterface[Any]):
    """Asks for the compiler only where the sources changed since the binaries in the tree were made."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if current() else [COMPILER]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not current():
            subprocess.run([sys.executable, str(BUILD)], check=True)
