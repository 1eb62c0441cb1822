"""Any quantized ONNX: networks of many families in the styles of the tools people use, each compiled and verified."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.breadth_networks import make_files, verify_files


def main(argv: list[str]) -> int:
    """Makes the files where they are not there yet, and verifies them; 1 where one is neither PASSED nor refused."""
    parser = argparse.ArgumentParser(prog="scripts/bench breadth", description=__doc__, add_help=False)
    parser.add_argument("--files", help="a folder that keeps the files (100 MB, a minute); temporary without it")
    parser.add_argument("-h", "--help", action="store_true")
    options, rest = parser.parse_known_args(argv)
    if options.help:
        parser.print_help()
        return verify_files.main(["--help"])
    if options.files:
        return _run(Path(options.files), rest)
    with tempfile.TemporaryDirectory(prefix="qverify-breadth-") as folder:
        return _run(Path(folder), rest)


def _run(folder: Path, rest: list[str]) -> int:
    if not (folder / "MADE.json").exists():
        print(f"making the files in {folder}", file=sys.stderr)
        make_files.main(["--out", str(folder)])
    return verify_files.main([str(folder), *rest])
