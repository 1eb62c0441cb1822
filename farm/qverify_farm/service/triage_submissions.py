"""Makes a run from a submitted triage."""

from __future__ import annotations

from qverify_farm.service.access import Scope
from qverify_farm.service.errors import ApiError
from qverify_farm.service.schemas.runs import Submitted, Triage
from qverify_farm.service.submissions import SubmissionCheck, find_files, submit
from qverify_farm.service.triage_engine import TRIAGE_WANTED
from qverify_farm.store.runs import NewJob

PATHS = ("dump", "app_output", "app_input", "capture", "description", "outputs", "device_outputs")
VALUES = ("decoder", "written")


def submit_triage(scope: Scope, triage: Triage, key: str | None = None) -> Submitted:
    """Submits a triage. key: as for submit(). Raises ApiError 422 with all its mistakes, and 409 if the service runs no
    triages."""
    if scope.farm.settings.triages < 1:
        raise ApiError(409, "this service runs no triages", next="start it with --triages 1")
    check = SubmissionCheck(find_files(scope, triage))
    files = set(check.digests)
    if triage.device_outputs:
        _check_outputs(triage, check)
    elif triage.outputs or triage.decoder or triage.written:
        check.mistakes.add("device_outputs", "outputs, decoder and written are about these; wanted them, too")
    elif not triage.capture and not triage.models:
        check.mistakes.add("models", "nothing to triage; wanted models, or a capture")
    if triage.capture and (triage.models or triage.inputs or triage.dump):
        check.mistakes.add("capture", "a capture has its own models and inputs; wanted it alone")
    for path in triage.models:
        if path not in files:
            check.mistakes.add("models", f"{path}: none of the files")
    values = {key: getattr(triage, key) for key in VALUES if getattr(triage, key)}
    path_options = {key: getattr(triage, key) for key in PATHS if getattr(triage, key)}
    for option, path in path_options.items():
        if not _is_submitted(path, files):
            check.mistakes.add(option, f"{path}: none of the files, and no folder of them (a folder ends with /)")
    for part in triage.inputs.split(",") if triage.inputs else ():
        if not any(
            _is_submitted(candidate, files) or _is_submitted(f"{candidate}/", files)
            for candidate in _candidate_paths(part)
        ):
            check.mistakes.add("inputs", f"{part[:100]}: none of the files, and no folder of them")
    check.raise_mistakes()
    settings = {
        "models": list(triage.models),
        "inputs": triage.inputs,
        "options": {**path_options, **values, "note": triage.note},
        "files": sorted(files),
        "timeout_s": triage.timeout_s,
        "content": "",
    }
    name = triage.name or _default_name(triage)
    job = NewJob(f"{triage.kind} {name}"[:500], name[:200], (TRIAGE_WANTED,), settings)
    return submit(scope, triage, name, triage.kind, {"note": triage.note}, [job], check.digests, key)


def _check_outputs(triage: Triage, check: SubmissionCheck) -> None:
    """Adds the mistakes of a case of device outputs: it has one reference, and nothing that only the ladder reads."""
    references = [key for key in ("outputs", "capture", "dump") if getattr(triage, key)]
    if len(references) != 1:
        check.mistakes.add("outputs", "wanted the network's final outputs, a capture or the board's dump: one of them")
    for key in ("models", "inputs", "app_output", "app_input", "description"):
        if getattr(triage, key):
            check.mistakes.add(
                key, "a case of device_outputs is compared with the outputs alone; hand in the ladder by itself"
            )


def _is_submitted(path: str, files: set[str]) -> bool:
    return path in files or (path.endswith("/") and any(candidate.startswith(path) for candidate in files))


def _candidate_paths(part: str) -> list[str]:
    """Returns the possible paths in NAME:PATH, since names and paths may contain colons."""
    return [part[at:].rstrip("/") for at in (0, *(n + 1 for n, c in enumerate(part) if c == ":"))]


def _default_name(triage: Triage) -> str:
    path = (triage.models[0] if triage.models else triage.device_outputs or triage.capture).rstrip("/")
    return path.rsplit("/", 1)[-1][:200] or triage.kind
