"""The parts that all runners share: options that pages need not handle, and the reading of a run's output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from qverify_agents.supervised_command import RunningCommandLine

from qverify.engines import Options, RunnerPlan, option
from qverify.errors import UsageError
from qverify.printable import printable
from qverify.vendor_files.vendor_dump import ITEM

SECONDS_PER_UNIT = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
MAX_SEARCHED_LENGTH = 4096  # characters of a line that patterns are matched with
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def common_options(plan: RunnerPlan, options: Options) -> RunnerPlan:
    """Returns the plan with the options that every runner has (engines.COMMON). The user's values replace those of the
    page, except that the environments are merged. Raises UsageError for a value of the wrong form."""
    prefix = option(options, "prefix")
    for key in ("success", "failure", "timing"):
        _check_expression(key, option(options, key))
    folder = option(options, "folder", plan.folder)
    if folder and not folder.startswith("/"):
        raise UsageError(f"runner option folder={folder}: wanted an absolute path of the board")
    if plan.collect and not plan.collect.startswith("/"):
        raise UsageError(f"runner option outputs={plan.collect}: wanted an absolute path of the board")
    for text in options.get("ledger", ()):
        if not re.fullmatch(r"[A-Za-z_][\w .-]*=.*\S.*", text):
            raise UsageError(f"runner option ledger={text}: wanted NAME=COMMAND")
    types = {**plan.reading.dtypes, **_dtypes(options)}
    return replace(
        plan,
        folder=folder,
        setup=plan.setup or option(options, "setup"),
        teardown=plan.teardown or option(options, "teardown"),
        success=option(options, "success", plan.success),
        failure=option(options, "failure", plan.failure),
        timing=option(options, "timing", plan.timing),
        profile=option(options, "profile", plan.profile),
        line=f"{prefix} {plan.line}" if prefix else plan.line,
        environment={**plan.environment, **_environment(options)},
        reading=replace(plan.reading, dtypes=types),
        per_node=plan.per_node and not wants_finals_only(options),
    )


def wants_finals_only(options: Options) -> bool:
    """Returns whether the user asked for final outputs only (per_node=0)."""
    return option(options, "per_node", "1").lower() in ("0", "no", "false")


def _check_expression(key: str, text: str) -> None:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise UsageError(f"runner option {key}={text}: {error}; wanted a regular expression") from error
    if key == "timing" and text and groups != 1:
        raise UsageError(
            f"runner option timing={text}: {groups} groups; wanted one around the number, as '(?P<ms>[0-9.]+) ms' "
            "(named s, ms or us; ms without a name)"
        )


def _environment(options: Options) -> dict[str, str]:
    environment = {}
    for assignment in options.get("environment", ()):
        name, equal, value = assignment.partition("=")
        if not equal or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"runner option environment={assignment}: wanted NAME=VALUE")
        environment[name] = value
    return environment


def _dtypes(options: Options) -> dict[str, str]:
    dtypes = {}
    for text in options.get("dtype", ()):
        name, _, dtype = text.rpartition("=")
        if dtype not in ITEM:
            raise UsageError(f"runner option dtype={text}: wanted one of {', '.join(ITEM)}, or NAME=DTYPE")
        dtypes[name] = dtype
    return dtypes


class RunnerOutput:
    """Reads the output of a run line by line: whether it reports success, and the time that it states."""

    def __init__(self, plan: RunnerPlan):
        self._plan = plan
        self._success, self._failure, self._timing = (
            re.compile(t) if t else None for t in (plan.success, plan.failure, plan.timing)
        )
        self._succeeded, self._failed = self._success is None, ""
        self.measured_s: float | None = None

    def add(self, line: str) -> None:
        """Reads one line, without its colours."""
        line = COLOUR.sub("", line[:MAX_SEARCHED_LENGTH])
        if self._success is not None and self._success.search(line):
            self._succeeded = True
        if self._failure is not None and not self._failed and self._failure.search(line):
            self._failed = printable(line.strip())[:200]
        if self._timing is not None and (match := self._timing.search(line)):
            self.measured_s = _seconds(match.groupdict(), match[1])

    def failure(self) -> str:
        """Returns why the output does not report success, or "" if it does."""
        if self._failed:
            return f"the runner ended with status 0, but says: {self._failed}"
        if not self._succeeded:
            return f"the runner ended with status 0, but no line of its output matches {self._plan.success!r}"
        return ""


def _seconds(named: Mapping[str, str | None], number: str | None) -> float | None:
    """Returns the time of a timing line in seconds, or None if it is not a valid time. named: the named groups of the
    match. number: the text of its first group."""
    unit = next((SECONDS_PER_UNIT[name] for name in named if name in SECONDS_PER_UNIT), 1e-3)
    try:
        value = float(number or "") * unit
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def exit_failure(started: RunningCommandLine, plan: RunnerPlan) -> str:
    """Returns why a run did not succeed, judged by its exit statuses, or "" if it succeeded."""
    marks = started.marks

    def ended(mark: str) -> str:
        status, last_line = marks.get(mark, ""), started.last_lines.get(mark, "")
        killed = status.isdigit() and 128 < int(status) < 160
        outcome = f"was killed by signal {int(status) - 128}" if killed else f"ended with status {status or 'unknown'}"
        return outcome + (f": {last_line}" if last_line else ", without any output")

    if "setup" in marks:
        return f"the runner's setup {ended('setup')}"
    if "notempty" in marks:
        return (
            f"{plan.collect} on the board is not empty before the run ({marks['notempty']!r}), so its files could be stale. "
            "Next: let setup empty it, as setup = 'rm -rf DIR/*'"
        )
    if marks.get("status") != "0":
        return f"the runner {ended('status')}"
    if marks.get("teardown", "0") != "0":
        return f"the runner's teardown {ended('teardown')}"
    if "replaced" in marks:
        return "the runner replaced the folder of its outputs by a link, so they may be stale files"
    if "linked" in marks:
        return f"{marks['linked']!r} has another name on the board (a hard link), so it may be a stale file"
    return ""
