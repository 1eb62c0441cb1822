"""The JSON report, written whole or not at all."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

from qverify.errors import UsageError
from qverify.report.document import Report


def write(report: Report, path: str) -> None:
    """`-` is stdout. UsageError when the file cannot be written."""
    write_document(report.to_json(), path)


def write_document(held: dict[str, Any], path: str) -> None:
    """Any document of plain values, as write()."""
    text = json.dumps(held, indent=1, allow_nan=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    write_text(text, path)


def printable(text: str) -> str:
    """Text from elsewhere as it may stand in a line: no line ends, no control characters."""
    return "".join(c if c.isprintable() else "?" for c in text)


def write_text(text: str, path: str) -> None:
    """Temp file beside the target, then rename."""
    write_bytes(text.encode(), path)


def write_bytes(data: bytes, path: str) -> None:
    """A symbolic link's target is replaced, not the link; a device or a pipe is written to as it is."""
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as there:
                there.write(data)
            return
        handle, part = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".qverify-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(part, 0o644)
            os.replace(part, target)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
