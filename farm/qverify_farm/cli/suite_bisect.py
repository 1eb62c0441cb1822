"""Searches the version that broke a suite: flashes one, runs the suite, and goes on between good and bad."""

from __future__ import annotations

import json
import shlex
import subprocess

import click
from qverify.cli.say_line import say
from qverify.errors import UsageError
from qverify.files import check_writable, read_regular, write_text
from qverify.plural import count
from qverify_agents.printable import one_line
from qverify_agents.process_group import KILL, end_group, own_group

from qverify_farm.cli.suite_boards import read_here
from qverify_farm.cli.suite_work import run_suite, tell_interrupted
from qverify_farm.store.states import INCONCLUSIVE
from qverify_farm.suites.bisect import bisect
from qverify_farm.suites.formats.rows import headline

MOST_VERSIONS, MOST_BYTES = 10_000, 1 << 20
PLACE = "{version}"


def bisect_versions(
    suite: str, versions_path: str, flash: str, timeout_s: float, json_path: str | None, database: str, artifacts: str
) -> int:
    """Says which version is the first bad one. Returns 0 where that is known, 3 where it is not."""
    words = _flash_words(flash)
    versions = _versions(versions_path)
    read_here(suite)  # its mistakes, before anything is flashed
    if json_path is not None:
        check_writable(json_path)

    def judge(version: str) -> str:
        say(f"{version}: flashing", err=True)
        why = _flash([word.replace(PLACE, version) for word in words], timeout_s)
        if why:
            say(f"{version}: {INCONCLUSIVE}: {why}", err=True)
            return INCONCLUSIVE
        report = run_suite(suite, database, artifacts, {"version": version}, None, (None, None, None))
        if report.state == "running":
            tell_interrupted(report)
            raise KeyboardInterrupt
        say(f"{version}: {headline(report)}", err=True)
        return report.verdict

    found = bisect(versions, judge)
    if json_path is not None:
        values = {"found": found.is_found, "good": found.good, "bad": found.bad, "between": found.between}
        write_text(json.dumps({**values, "judged": found.judged, "said": found.sentence}, indent=2) + "\n", json_path)
    say(found.sentence)
    return 0 if found.is_found else 3


def _flash_words(flash: str) -> list[str]:
    try:
        words = shlex.split(flash)
    except ValueError as error:
        raise click.UsageError(f"--flash: {error}") from error
    if not any(PLACE in word for word in words):
        raise click.UsageError(f"--flash {flash[:80]!r}: wanted a command with {PLACE} in it")
    return words


def _versions(path: str) -> list[str]:
    """Returns the lines of the list, without comments. UsageError for fewer than two, and for one named twice."""
    try:
        text = read_regular(path, MOST_BYTES, follow=True).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"--list {path}: not a text: {error}") from error
    found = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    twice = next((one for one in found if found.count(one) > 1), None) if len(found) <= MOST_VERSIONS else None
    if len(found) < 2 or len(found) > MOST_VERSIONS or twice is not None:
        got = f"{twice} twice" if twice is not None else count(len(found), "version")
        raise UsageError(
            f"--list {path}: got {got}; wanted 2 to {MOST_VERSIONS} versions, one a line, the oldest first"
        )
    return found


def _flash(words: list[str], timeout_s: float) -> str:
    """Runs the command; returns "" where it worked, else why not."""
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **own_group(KILL)
        )
    except OSError as error:
        raise UsageError(f"--flash {words[0]}: {error.strerror}") from error
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return f"the flash command did not end within {timeout_s:g} s"
    finally:
        end_group(process)
        process.communicate()
    last = one_line(output.decode(errors="replace").strip().rpartition("\n")[2])[:200]
    return f"the flash command ended with {process.returncode}: {last}" if process.returncode else ""
