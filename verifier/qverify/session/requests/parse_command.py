"""Makes the job of a command from keywords, for callers in Python and for suites and farms. The command is not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from qverify_agents.printable import one_line

from qverify.errors import OptionsError, UsageError
from qverify.options.parse import parse_keywords

MAKERS = {  # command: the module and the function that make its job
    "verify": ("verify", "verify_job"),
    "triage": ("triage", "triage_request"),
    "compare": ("offline", "compare_request"),
    "replay": ("offline", "replay_request"),
    "compile": ("models", "compile_job"),
    "quantize": ("models", "quantize_job"),
    "inputs_diff": ("differences", "inputs_diff_request"),
    "outputs_diff": ("differences", "outputs_diff_request"),
}


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """job: the command's request. command: a command line that does the same."""

    job: Any
    command: str


def parse_command(
    name: str, arguments: Sequence[str], options: Mapping[str, Any], drawings: bool = False
) -> ParsedCommand:
    """Parses the arguments of a command as its command line would be parsed, without running it.

    name: of the command. arguments: its positional arguments. options: values by keyword; None for an option that is
    not given. drawings: also request the drawings that an HTML page shows. Raises UsageError for a wrong value,
    TypeError for an unknown keyword."""
    given, command = parse_keywords(name, arguments, options, drawings)
    module, function = MAKERS[name]
    try:
        job = getattr(import_module(f"qverify.session.requests.{module}"), function)(given)
    except OptionsError as error:
        raise UsageError(one_line(str(error))) from error
    return ParsedCommand(job, command)
