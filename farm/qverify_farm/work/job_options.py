"""The options that a job may have: those of qverify.verify, without what runs a command, loads code, says how a board is
reached, or names a file that is not the job's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from qverify.closest_names import closest_names
from qverify.errors import UsageError

FILES = frozenset({"description", "labels"})  # their values are paths of the job's files
VALUES = frozenset(
    {
        *("compare_digits", "dump_all_nodes_results", "rule", "gate", "criteria", "nan_equal", "relax_board", "strict"),
        *("atol", "rtol", "min_cosine", "max_rmse", "min_sqnr", "max_lsb"),
        *("seed", "roi", "run_sim", "shape", "pull", "allow_other_model", "no_host", "repeat", "paranoid", "spot_seed"),
        *("reference_spread", "timeout"),
    }
)
_RUNS = "it runs a command or loads code on the host of the board"
_REACHES = "how a board is reached and what runs on it belongs into the inventory of its host"
REFUSED = {
    **dict.fromkeys(("reference_python", "reference_engine", "reference_timeout", "task_metric"), _RUNS),
    **dict.fromkeys(("runner", "runner_option", "python", "provider", "runtime"), _REACHES),
    **dict.fromkeys(("user", "ssh_config", "ssh_backend", "accept_new_host_key", "wait"), _REACHES),
    "capture": "it names a folder of the host; a job's keep_capture stores the capture as an artifact",
    **dict.fromkeys(("models", "board", "inputs"), "it is a field of the job"),
    **dict.fromkeys(("server", "token"), "a job runs where it was sent"),
}


def check_options(options: Mapping[str, Any], files: Collection[str], inputs: bool = True) -> list[str]:
    """Returns what is wrong with a job's options, a line each; empty where nothing is. files: the paths of the job's
    files. inputs: whether the job has inputs of its own."""
    wrong, allowed = _refused(options, files, inputs)
    alone = [line for k, v in sorted(allowed.items()) if (line := _wrong_value({k: v}))]
    together = _wrong_value(allowed) if not alone else ""
    return [*wrong, *alone, *([together] if together else [])]


def check_names(options: Mapping[str, Any], files: Collection[str], inputs: bool = True) -> None:
    """Raises UsageError for options and files that a job must not name; their values are not looked at."""
    if wrong := _refused(options, files, inputs)[0]:
        raise UsageError("; ".join(wrong))


def _refused(options: Mapping[str, Any], files: Collection[str], inputs: bool) -> tuple[list[str], dict[str, Any]]:
    """Returns what is wrong with the names, and the allowed options that are no files."""
    wrong = [line for keyword in sorted(options) if (line := _refusal(keyword))]
    allowed = {k: v for k, v in options.items() if k in VALUES | FILES}
    for keyword in sorted(FILES & allowed.keys()):
        if not isinstance(path := allowed.pop(keyword), str) or path not in files:
            wrong.append(f"{keyword}: {str(path)[:200]!r} is none of the job's files")
    if "labels" in options and not inputs:
        wrong.append("labels: wanted inputs, too, whose labels they are")
    return wrong, allowed


def _refusal(keyword: str) -> str:
    if keyword in VALUES | FILES:
        return ""
    if keyword in REFUSED:
        return f"{keyword}: a job must not have this option: {REFUSED[keyword]}"
    near = closest_names(keyword, sorted(VALUES | FILES))
    return (
        f"{keyword[:60]}: unknown option; did you mean {' or '.join(near)}?"
        if near
        else f"{keyword[:60]}: unknown option"
    )


def _wrong_value(options: Mapping[str, Any]) -> str:
    """Returns what the command says of these values; nothing is opened."""
    from qverify.cli.python_options import asked_of

    try:
        asked_of("verify", [], {"models": ["model"], "inputs": "input", **options})
    except UsageError as error:
        return f"{next(iter(options))}: {error}" if len(options) == 1 else str(error)
    return ""
