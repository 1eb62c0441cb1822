"""Makes a run of a triage that was submitted."""

from __future__ import annotations

from qverify_farm.service.access import Scope
from qverify_farm.service.errors import ApiError
from qverify_farm.service.schemas.runs import Submitted, Triage
from qverify_farm.service.submissions import Checked, find_files, submit
from qverify_farm.service.triage_engine import WANTED
from qverify_farm.store.runs import NewJob

PATHS = ("dump", "app_output", "app_input", "capture", "description")


def submit_triage(scope: Scope, asked: Triage) -> Submitted:
    """Submits a triage. ApiError 422 for what does not fit, all of it at once."""
    if scope.farm.settings.triages < 1:
        raise ApiError(409, "this service runs no triages", next="start it with --triages 1")
    checked = Checked(find_files(scope, asked))
    files = set(checked.digests)
    if not asked.capture and not asked.models:
        checked.mistakes.add("models", "nothing to triage; wanted models, or a capture")
    if asked.capture and (asked.models or asked.inputs or asked.dump):
        checked.mistakes.add("capture", "a capture has its own models and inputs; wanted it alone")
    for path in asked.models:
        if path not in files:
            checked.mistakes.add("models", f"{path}: none of the files")
    given = {key: getattr(asked, key) for key in PATHS if getattr(asked, key)}
    for key, path in given.items():
        if not _is_there(path, files):
            checked.mistakes.add(key, f"{path}: none of the files, and no folder of them (a folder ends with /)")
    for part in asked.inputs.split(",") if asked.inputs else ():
        if not any(_is_there(one, files) or _is_there(f"{one}/", files) for one in _paths_in(part)):
            checked.mistakes.add("inputs", f"{part[:100]}: none of the files, and no folder of them")
    checked.raise_mistakes()
    settings = {
        "models": list(asked.models),
        "inputs": asked.inputs,
        "options": {**given, "note": asked.note},
        "files": sorted(files),
        "timeout_s": asked.timeout_s,
        "content": "",
    }
    name = asked.name or _named(asked)
    job = NewJob(f"{asked.kind} {name}"[:500], name[:200], (WANTED,), settings)
    return submit(scope, asked, name, asked.kind, {"note": asked.note}, [job], checked.digests)


def _is_there(path: str, files: set[str]) -> bool:
    return path in files or (path.endswith("/") and any(one.startswith(path) for one in files))


def _paths_in(part: str) -> list[str]:
    """Returns what may be the path in NAME:PATH."""
    return [part[at:].rstrip("/") for at in (0, *(n + 1 for n, c in enumerate(part) if c == ":"))]


def _named(asked: Triage) -> str:
    path = (asked.models[0] if asked.models else asked.capture).rstrip("/")
    return path.rsplit("/", 1)[-1][:200] or asked.kind
