"""Tells a CI system that runs this command what was found: on GitHub Actions, by annotations and the step's summary."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qverify.report.difference import Difference
    from qverify.report.document import Report
    from qverify.report.triage_document import Triage

MOST_BYTES = 1 << 20  # of a step's summary; GitHub drops a larger one whole


def annotate(found: Report | Triage | Difference) -> None:
    """On GitHub Actions (GITHUB_ACTIONS=true), prints workflow commands on standard error, whose lines its runner reads as it
    does those of standard output, and appends the Markdown report to the file GITHUB_STEP_SUMMARY. Elsewhere does nothing. A
    summary that cannot be written is a warning there: it changes no verdict."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    from qverify.renderers.annotations import github_commands, list_annotations

    for command in github_commands(list_annotations(found)):
        print(command, file=sys.stderr)
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append(found, path)


def _append(found: Report | Triage | Difference, path: str) -> None:
    from qverify.renderers.annotations import Annotation, github_commands
    from qverify.renderers.formats.markdown import text

    said = text(found).encode()
    try:
        room = MOST_BYTES - (os.path.getsize(path) if os.path.exists(path) else 0)
        with open(path, "ab") as file:
            file.write(said if len(said) <= room else b"")
        why = "" if len(said) <= room else f"no room for {len(said)} bytes"
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        told = Annotation("warning", "qverify", f"GITHUB_STEP_SUMMARY: {why}; the report is not in the step's summary")
        print(github_commands([told])[0], file=sys.stderr)
