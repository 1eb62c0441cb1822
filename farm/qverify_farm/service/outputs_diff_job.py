"""A bad case of device outputs: what the application made of the network's outputs, compared by `qverify outputs diff`. This is the only
place that knows that command's words and its document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qverify.printable import printable, visible
from qverify.renderers.html_page.elements import element, listed, text, verdict
from qverify.renderers.html_page.frame import Section, page

COMMAND = ("outputs", "diff")
SCHEMA = "qverify.outputs_diff/1"
DECODER = r"[a-z0-9_]{1,40}(,[a-z_]{1,20}=[A-Za-z0-9.x-]{1,40}){0,12}"  # a packaged one by name: no file, no module
WRITTEN = r"[a-z_]{1,20}=[A-Za-z0-9.:|_-]{1,60}(,[a-z_]{1,20}=[A-Za-z0-9.:|_-]{1,60}){0,7}"
SECONDS = 60  # of the search
MAX_LINES = 60


def is_outputs_case(options: Mapping[str, Any]) -> bool:
    """Returns whether the options of a bad case are those of device outputs."""
    return bool(options.get("device_outputs"))


def outputs_words(options: Mapping[str, Any], tree: Path, paths: Mapping[str, Path]) -> list[str]:
    """Returns the arguments of the command. tree: the folder with the job's files. paths: the outputs' paths."""
    reference = next(options[key] for key in ("outputs", "capture", "dump") if options.get(key))
    words = [str(tree / str(reference).rstrip("/")), str(tree / str(options["device_outputs"]).rstrip("/"))]
    for key in ("decoder", "written"):
        words += [f"--{key}", str(options[key])] if options.get(key) else []
    return [*words, "--seconds", str(SECONDS), "--json", str(paths["json"])]


def outputs_fields(document: Any) -> dict[str, Any]:
    """Returns the fields of a JobResult. A document without parts, or of another form, is INCONCLUSIVE."""
    parts = document.get("parts") if isinstance(document, dict) and document.get("schema") == SCHEMA else None
    parts = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    verdicts = [part.get("verdict") for part in parts]
    if not parts or not set(verdicts) <= {"EQUAL", "DIFFERENT"}:
        return {"verdict": "INCONCLUSIVE", "why": "outputs diff compared nothing"}
    if set(verdicts) == {"EQUAL"}:
        return {"verdict": "PASSED", "why": "", "gate": "the device's outputs are those intended"}
    lines = [line for part in parts for line in _lines(part)]
    why = lines[0] if lines else "the device's outputs differ, and no known mistake gives them"
    blame = {"blame_side": "application", "gate": "the device's outputs are those intended"}
    return {"verdict": "FAILED", "why": printable(why), **blame}


def _lines(part: Mapping[str, Any]) -> list[str]:
    """Returns the explanations of a part in words, the simplest first; with what to change."""
    lines = list[str]()
    for group in part.get("exact") or ():
        for causes in group if isinstance(group, list) else ():
            found = [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []
            said = " and ".join(str(cause.get("said", "")) for cause in found)
            change = "; ".join(str(cause["change"]) for cause in found if cause.get("change"))
            where = f"{part['output']}: " if part.get("output") else ""
            lines.append(f"{where}{said}{f'. Change: {change}' if change else ''}")
    return lines


def outputs_page(document: Any) -> str:
    """Returns the page of a comparison."""
    shown, fields = visible(document), outputs_fields(document)
    parts = shown.get("parts") if isinstance(shown, dict) else None
    sections = [
        Section(f"p{number}", str(part.get("output") or "Result"), _part(part))
        for number, part in enumerate(parts if isinstance(parts, list) else ())
        if isinstance(part, dict)
    ]
    top = element(
        "header",
        element("h1", element("span", "qverify outputs diff ", class_="brand"), verdict(fields["verdict"])),
        element("p", text(fields["why"] or "The device's outputs are those intended."), class_="blame"),
    )
    return page(f"qverify outputs diff: {fields['verdict']}", top, sections)


def _part(part: Mapping[str, Any]) -> str:
    facts = [f"device: {part.get('size', '')}", f"intended: {part.get('intended', '')}"]
    found = _lines(part)
    nearest = part.get("nearest")
    near = [f"nearest: {json.dumps(nearest)[:2000]}"] if isinstance(nearest, dict) else []
    notes = [str(note) for note in part.get("notes") or () if isinstance(note, str)]
    return listed([str(part.get("verdict", "")), *facts, *found, *near, *notes][:MAX_LINES])
