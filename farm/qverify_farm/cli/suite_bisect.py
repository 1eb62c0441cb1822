"""Searches for the version that broke a suite: flashes a version, runs the suite, and continues between good and bad."""

from __future__ import annotations

import json
import shlex
import subprocess

import click
from qverify.cli.say_line import say
from qverify.closest_names import did_you_mean
from qverify.errors import UsageError
from qverify.files import check_writable, parse_strict_json, read_regular, write_text
from qverify.plural import count
from qverify.report.matrix.document import SCHEMA, MatrixDocument
from qverify.report.read_report import build_checked
from qverify_agents.printable import one_line
from qverify_agents.process_group import KILL, kill_group, new_group_arguments

from qverify_farm.cli.suite_boards import read_here
from qverify_farm.cli.suite_work import run_suite, say_interrupted
from qverify_farm.store.states import INCONCLUSIVE
from qverify_farm.suites.bisect import bisect
from qverify_farm.suites.formats.report_lines import headline

MAX_VERSIONS, MAX_LIST_BYTES = 10_000, 1 << 20
PLACEHOLDER = "{version}"
MAX_MATRIX_BYTES = 1 << 28


def bisect_versions(
    suite: str,
    versions_path: str | None,
    of_cell: tuple[str, str] | None,
    flash: str,
    timeout_s: float,
    json_path: str | None,
    database: str,
    artifacts: str,
) -> int:
    """Prints which version is the first bad one. of_cell: path of a matrix as JSON, and ROW,COLUMN: where the search begins. Returns 0
    if it was found, otherwise 3."""
    command = _flash_command(flash)
    versions = _read_versions(versions_path) if versions_path is not None else []
    versions = _between_cells(*of_cell, versions) if of_cell is not None else versions
    read_here(suite)  # reports mistakes in the suite before anything is flashed
    if json_path is not None:
        check_writable(json_path)

    def judge(version: str) -> str:
        say(f"{version}: flashing", err=True)
        why = _flash([word.replace(PLACEHOLDER, version) for word in command], timeout_s)
        if why:
            say(f"{version}: {INCONCLUSIVE}: {why}", err=True)
            return INCONCLUSIVE
        report = run_suite(suite, database, artifacts, {"version": version}, None, (None, None, None))
        if report.state == "running":
            say_interrupted(report)
            raise KeyboardInterrupt
        say(f"{version}: {headline(report)}", err=True)
        return report.verdict

    result = bisect(versions, judge)
    if json_path is not None:
        values = {"found": result.is_found, "good": result.good, "bad": result.bad, "between": result.between}
        write_text(json.dumps({**values, "judged": result.judged, "said": result.sentence}, indent=2) + "\n", json_path)
    say(result.sentence)
    return 0 if result.is_found else 3


def _flash_command(flash: str) -> list[str]:
    try:
        command = shlex.split(flash)
    except ValueError as error:
        raise click.UsageError(f"--flash: {error}") from error
    if not any(PLACEHOLDER in word for word in command):
        raise click.UsageError(f"--flash {flash[:80]!r}: wanted a command with {PLACEHOLDER} in it")
    return command


def _read_versions(path: str) -> list[str]:
    """Returns the versions in a list, without comments. Raises UsageError for fewer than two, too many, or repeated ones."""
    try:
        text = read_regular(path, MAX_LIST_BYTES, follow=True).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"--list {path}: not a text: {error}") from error
    versions = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    has_legal_size = 2 <= len(versions) <= MAX_VERSIONS
    repeated = next((name for name in versions if versions.count(name) > 1), None) if has_legal_size else None
    if not has_legal_size or repeated is not None:
        got = f"{repeated} twice" if repeated is not None else count(len(versions), "version")
        raise UsageError(f"--list {path}: got {got}; wanted 2 to {MAX_VERSIONS} versions, one a line, the oldest first")
    return versions


def _between_cells(path: str, cell: str, listed: list[str]) -> list[str]:
    """Returns the versions from the row's last column with another verdict to that of the cell: those of the matrix, or of a list,
    which names versions without a run, too. cell: ROW,COLUMN. Raises UsageError if the matrix does not have these."""
    matrix = _read_matrix(path)
    names = [column.name for column in matrix.columns]
    row_name, _, column_name = (word.strip() for word in cell.rpartition(","))
    rows = [at for at, row in enumerate(matrix.rows) if row.name == row_name]
    if len(matrix.columns_by) != 1:
        raise UsageError(
            f"--from-matrix {path}: columns of {', '.join(matrix.columns_by)}; wanted those of one fact, the versions"
        )
    if not rows or column_name not in names:
        known = [row.name for row in matrix.rows] if not rows else names
        what, wrong = ("column", column_name) if rows else ("row", row_name)
        raise UsageError(
            f"--cell {cell[:200]}: no {what} {wrong!r}{did_you_mean(wrong, known)}; wanted ROW,COLUMN of {path}"
        )
    cells = {one.column: one for one in matrix.cells if one.row == rows[0]}
    end = names.index(column_name)
    if end not in cells:
        raise UsageError(f"--cell {cell[:200]}: no run there")
    start = next((at for at in range(end - 1, -1, -1) if at in cells and cells[at].verdict != cells[end].verdict), None)
    if start is None:
        raise UsageError(
            f"--cell {cell[:200]}: every earlier run of this row is {cells[end].verdict}, too; give another cell"
        )
    if not listed:
        return names[start : end + 1]
    if missing := next((name for name in (names[start], names[end]) if name not in listed), None):
        raise UsageError(f"--list: {missing} of the matrix is not in it")
    first, last = listed.index(names[start]), listed.index(names[end])
    if first > last:
        raise UsageError(f"--list: {names[end]} is before {names[start]}; wanted the oldest version first")
    return listed[first : last + 1]


def _read_matrix(path: str) -> MatrixDocument:
    try:
        document = parse_strict_json(read_regular(path, MAX_MATRIX_BYTES, follow=True))
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ValueError(f"wanted {SCHEMA}, as qverify report matrix --json writes it")
        return build_checked(MatrixDocument, document)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--from-matrix {path}: {one_line(str(error))[:200]}") from error


def _flash(command: list[str], timeout_s: float) -> str:
    """Runs the flash command. Returns "" if it succeeded, otherwise the reason why not."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **new_group_arguments(KILL),
        )
    except OSError as error:
        raise UsageError(f"--flash {command[0]}: {error.strerror}") from error
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return f"the flash command did not end within {timeout_s:g} s"
    finally:
        kill_group(process)
        process.communicate()
    last_line = one_line(output.decode(errors="replace").strip().rpartition("\n")[2])[:200]
    said = f": {last_line}" if last_line else ""
    return f"the flash command ended with {process.returncode}{said}" if process.returncode else ""
