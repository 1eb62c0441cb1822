"""python -m qverify_farm.service.triage_child: runs `qverify triage` on files of strangers, in a process that may end."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

from qverify_farm.work.child import serve

MOST = 4000  # characters of what it said


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Returns {"status", "said"} of {"words"}: the exit status, and the end of what the command said of mistakes."""
    from qverify.cli.main import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = main(["triage", *request["words"]])
    return {"status": status, "said": said.getvalue()[-MOST:]}


def outputs(folder: Path) -> dict[str, Path]:
    """Returns where a triage writes what stays of it."""
    return {"json": folder / "triage.json", "html": folder / "triage.html", "capture": folder / "capture"}


if __name__ == "__main__":
    serve(answer)
