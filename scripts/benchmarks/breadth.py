"""Compiles and verifies networks of many families, quantized in the styles of commonly used tools."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.breadth_networks import make_files, verify_files


def main(argv: list[str]) -> int:
    """Creates the files unless they exist, and verifies them. Returns 1 if one is neither PASSED nor refused."""
    parser = argparse.ArgumentParser(prog="scripts/bench breadth", description=__doc__)
    parser.add_argument(
        "--files", help="a folder in which the files are kept (100 MB, a minute to create); by default a temporary one"
    )
    verify_files.add_options(parser)
    options = parser.parse_args(argv)
    if options.files:
        return _run(Path(options.files), options)
    with tempfile.TemporaryDirectory(prefix="qverify-breadth-") as folder:
        return _run(Path(folder), options)


def _run(folder: Path, options: argparse.Namespace) -> int:
    if not (folder / "MADE.json").exists():
        print(f"making the files in {folder}", file=sys.stderr)
        make_files.main(["--out", str(folder)])
    return verify_files.run(folder, options)
