"""Opens the reports of many earlier runs for a matrix: JSON files (also .gz), captures and bundles, and folders of these."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from qverify_agents.errors import LinkError

from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.files import read_regular
from qverify.report.matrix.document import StoredRun, UnreadableRun
from qverify.report.matrix.grouping import MAX_RUNS
from qverify.report.matrix.skim import Skimmer
from qverify.report.matrix.stored_runs import stored_runs
from qverify.report.read_report import MAX_BYTES
from qverify.report.report_json import to_json
from qverify.report.stated_facts import check_fact

ENDINGS = (".json", ".json.gz")  # of reports in a folder
GZIP = ".gz"
OURS = "qverify."  # how the schemas of our documents begin
MAX_LABELS_BYTES = 1 << 24
MAX_DEPTH = 16  # folders below a folder


@dataclass(slots=True)
class OpenedRuns:
    """What was opened. passed_over: files of folders that are other documents of qverify."""

    runs: list[StoredRun] = field(default_factory=list)
    unreadable: list[UnreadableRun] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)


LabelsOf = Callable[[str], Mapping[str, str]]


def open_runs(
    paths: Sequence[str],
    labels: Mapping[str, str] | None = None,
    skip_unreadable: bool = False,
    labels_of: LabelsOf | None = None,
) -> OpenedRuns:
    """Opens every report. labels: facts of the runs that do not state them themselves. labels_of: returns further facts of a path,
    which must not contradict what the run states. skip_unreadable: list what cannot be read
    instead of raising its error. Raises BadFileError or UsageError for the first that cannot be read, or for too many."""
    opened = OpenedRuns()
    with Skimmer() as skimmer:
        for path, is_of_folder in _list_files(paths):
            try:
                data = _read(path)
                if is_of_folder and _is_other_document(data):
                    opened.passed_over.append(path)
                    continue
                of_path = labels_of(path) if labels_of is not None else {}
                opened.runs += _checked(
                    stored_runs(skimmer.read(data, path), path, {**(labels or {}), **of_path}), of_path
                )
            except (QVerifyError, LinkError) as error:
                if not skip_unreadable:
                    raise
                opened.unreadable.append(UnreadableRun(path, " ".join(str(error).split())))
            if len(opened.runs) > MAX_RUNS:
                raise UsageError(f"more than {MAX_RUNS} runs; give fewer reports")
    return opened


def _checked(runs: Iterable[StoredRun], labels: Mapping[str, str]) -> Iterator[StoredRun]:
    """Yields the runs. Raises UsageError for one that states another value than a label of its path."""
    for run in runs:
        for key, value in labels.items():
            if run.facts.get(key) != value:
                raise UsageError(
                    f"{run.source}: states {key} {run.facts.get(key)}, and its label says {value}; correct one"
                )
        yield run


def read_labels(path: str) -> LabelsOf:
    """Returns the facts that a CSV file states: its first column names files, the others are facts. Raises BadFileError."""
    try:
        text = read_regular(path, MAX_LABELS_BYTES, follow=True).decode()
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadFileError(f"{path}: not CSV: {error}") from error
    keys = rows[0][1:] if rows else []
    by_file: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows[1:], 2):
        facts = {key: value for key, value in zip(keys, row[1:], strict=False) if value}
        wrong = next((f"{k}: {why}" for k, v in facts.items() if (why := check_fact(k, v))), "")
        if wrong or len(row) > len(keys) + 1 or (row and row[0] in by_file):
            raise BadFileError(f"{path}:{number}: {wrong or 'more cells than the first line has, or a file twice'}")
        if row:
            by_file[row[0]] = facts
    if not keys or not by_file:
        raise BadFileError(f"{path}: wanted a first line `file,FACT,...`, and a line for each report")
    return lambda name: next((by_file[key] for key in (name, os.path.basename(name)) if key in by_file), {})


def read_path_labels(template: str) -> LabelsOf:
    """Returns the facts that a part of a path states, by a template such as fw-{firmware}_tc-{toolchain}. Raises UsageError for a
    template without a fact, or with two facts that nothing separates."""
    pieces = re.split(r"\{([^{}]*)\}", template)
    names = pieces[1::2]
    if wrong := next((why for name in names if (why := check_fact(name, "x"))), "" if names else "wanted {FACT} in it"):
        raise UsageError(f"--path-labels {template[:80]}: {wrong}, as fw-{{firmware}}_tc-{{toolchain}}")
    if len(set(names)) < len(names) or "" in pieces[2:-1:2] or "/" in template:
        raise UsageError(f"--path-labels {template[:80]}: wanted each fact once, text between them, and no /")

    def labels_of(path: str) -> Mapping[str, str]:
        for part in reversed(os.path.normpath(path).split(os.sep)):
            ending = next((ending for ending in reversed(ENDINGS) if part.endswith(ending)), "")
            values = _split_by(part.removesuffix(ending), pieces[::2])
            if values is not None:
                return {k: v for k, v in zip(names, values, strict=True) if not check_fact(k, v)}
        return {}

    return labels_of


def _split_by(text: str, literals: Sequence[str]) -> list[str] | None:
    """Returns the texts between literals that follow each other in a text, each up to the first place of the next; None if the
    text is not of this form."""
    if not text.startswith(literals[0]):
        return None
    values, rest = list[str](), text[len(literals[0]) :]
    for literal in literals[1:-1]:
        value, found, rest = rest.partition(literal)
        if not found:
            return None
        values.append(value)
    if not rest.endswith(literals[-1]):
        return None
    values.append(rest[: len(rest) - len(literals[-1])])
    return values if all(values) else None


def _list_files(paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yields each file, capture and bundle, once, and whether it was found in a folder. A folder without any is an error."""
    seen = set[str]()
    for path in paths:
        is_folder = os.path.isdir(path) and not _is_run(path)
        found = 0
        for one in _walk(path, MAX_DEPTH) if is_folder else [path]:
            found += 1
            if (real := os.path.realpath(one)) not in seen:
                seen.add(real)
                yield one, is_folder
        if not found:
            raise UsageError(f"{path}: no report in this folder; wanted files {' or '.join(ENDINGS)}, or captures")


def _is_run(folder: str) -> bool:
    from qverify.capture.reader import is_capture
    from qverify.session.offline.replay_bundle import is_bundle

    return is_capture(folder) or is_bundle(folder)


def _walk(folder: str, depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise BadFileError(f"{folder}: {error.strerror}") from error
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if _is_run(entry.path):
                yield entry.path
            elif depth:
                yield from _walk(entry.path, depth - 1)
        elif entry.name.endswith(ENDINGS):
            yield entry.path


def _read(path: str) -> bytes:
    """Returns the JSON report of a file, a capture or a bundle."""
    if os.path.isdir(path):
        from qverify.session.offline.open_report import open_report  # with it come the engines of this host

        return json.dumps(to_json(open_report(path)), indent=1, allow_nan=False).encode()
    data = read_regular(path, MAX_BYTES + 1, follow=True)
    if path.endswith(GZIP):
        data = _unpack(data, path)
    if len(data) > MAX_BYTES:
        raise BadFileError(f"{path}: more than {MAX_BYTES >> 20} MiB; wanted the JSON report of a run (--json)")
    return data


def _unpack(data: bytes, path: str) -> bytes:
    """Returns the unpacked bytes, at most MAX_BYTES + 1 of them."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(data, MAX_BYTES + 1)
    except zlib.error as error:
        raise BadFileError(f"{path}: not gzip: {error}") from error
    if not unpacker.eof and len(unpacked) <= MAX_BYTES:
        raise BadFileError(f"{path}: the gzip data is cut short")
    if unpacker.unused_data:
        raise BadFileError(f"{path}: something follows the gzip data")
    return unpacked


def _is_other_document(data: bytes) -> bool:
    """Returns whether the bytes are a document of qverify that is no report of a run, such as the results of triage."""
    if data.startswith(b'{\n "schema": "qverify.report/') or OURS.encode() not in data:
        return False
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return False
    schema = document.get("schema") if isinstance(document, dict) else None
    return isinstance(schema, str) and schema.startswith(OURS) and not schema.startswith("qverify.report/")
