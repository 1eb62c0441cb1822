"""python -m qverify_farm.service.triage_child: runs `qverify triage` on untrusted files, in a process that may crash."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

from qverify_farm.work.child import serve

MAX_ERROR_LENGTH = 4000  # characters


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Runs the command with the arguments request["words"]. Returns its exit status as "status" and the end of its standard
    error as "said"."""
    from qverify.cli.main import main

    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        status = main(["triage", *request["words"]])
    return {"status": status, "said": errors.getvalue()[-MAX_ERROR_LENGTH:]}


def output_paths(folder: Path) -> dict[str, Path]:
    """Returns the paths of a triage's outputs in a folder."""
    return {"json": folder / "triage.json", "html": folder / "triage.html", "capture": folder / "capture"}


if __name__ == "__main__":
    serve(answer)
