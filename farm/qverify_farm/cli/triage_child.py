"""python -m qverify_farm.cli.triage_child: runs `qverify triage` or `outputs diff` on untrusted files, in a process that may crash."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from qverify_farm.work.child import serve

MAX_ERROR_LENGTH = 4000  # characters
COMMANDS = (("triage",), ("outputs", "diff"))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Runs the command request["command"], one of COMMANDS, with the arguments request["words"]. Returns its exit status as "status" and the end of its standard
    error as "said"."""
    from qverify.cli.main import main

    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        command = tuple(request["command"])
        status = main([*command, *request["words"]]) if command in COMMANDS else 2
    return {"status": status, "said": errors.getvalue()[-MAX_ERROR_LENGTH:]}


if __name__ == "__main__":
    serve(answer)
