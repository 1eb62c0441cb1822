"""Writes documents of --json that are no reports; `-` is standard output."""

from __future__ import annotations

import json
import sys
from typing import Any

from qverify.files import require_writable, write_text


def check_document(path: str | None) -> None:
    """Raises OptionsError if the document could not be written. path: of --json, None without it."""
    if path is not None and path != "-":
        require_writable("--json", path)


def write_document(document: Any, path: str | None) -> None:
    """Writes the document, if a path was given."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
    elif path:
        write_text(text, path)
