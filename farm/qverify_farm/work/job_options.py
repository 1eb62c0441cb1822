"""The options that a job may have: those of qverify.verify, except options that run a command, load code, define how a board
is reached, or name a file that does not belong to the job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from qverify.closest_names import closest_names
from qverify.errors import UsageError
from qverify.session.chosen_sides import choose_engine
from qverify_agents.errors import BadAddress
from qverify_agents.inventory import find_engine, read_engines
from qverify_agents.inventory_tables import ENGINE_NAME

FILES = frozenset({"description", "labels", "quantization"})  # options with paths of the job's files
ENGINES = frozenset({"run_sim", "reference", "simulator"})  # options that may name engines
VALUES = frozenset(
    {
        *("compare_digits", "dump_all_nodes_results", "rule", "gate", "criteria", "nan_equal", "relax_board", "strict"),
        *("atol", "rtol", "min_cosine", "max_rmse", "min_sqnr", "min_euclid", "max_lsb"),
        *("seed", "roi", "run_sim", "shape", "pull", "allow_other_model", "no_host", "repeat", "paranoid", "spot_seed"),
        *("reference", "simulator", "reference_spread", "timeout"),
    }
)
DEFAULT_REFERENCE = ("reference", "onnxruntime")
_RUNS = "it runs a command or loads code on the host of the board"
_REACHES = "how a board is reached and what runs on it belongs in the inventory of its host"
REFUSED = {
    **dict.fromkeys(("reference_python", "reference_engine", "reference_timeout", "task_metric"), _RUNS),
    **dict.fromkeys(("runner", "runner_option", "python", "provider", "runtime"), _REACHES),
    **dict.fromkeys(("user", "ssh_config", "ssh_backend", "accept_new_host_key", "wait"), _REACHES),
    "arithmetic": "compile the model.bin with --arithmetic and give it to the job",
    "signature": "a job verifies the first signature of a .tflite",
    **dict.fromkeys(("steps", "feed", "decode"), "a job verifies independent frames, not the steps of a sequence"),
    "capture": "it names a folder of the host; a job's keep_capture stores the capture as an artifact",
    **dict.fromkeys(("models", "board", "inputs"), "it is a field of the job"),
    **dict.fromkeys(
        ("profile", "side", "dtype", "layer_info", "frame", "map"), "a job has a board, not a dump in its place"
    ),
    **dict.fromkeys(("server", "token"), "a job runs where it was sent"),
}


def check_options(
    options: Mapping[str, Any], files: Collection[str], inputs: bool = True, own_engines: bool = False
) -> list[str]:
    """Returns the mistakes in a job's options, one line each. files: the paths of the job's files. inputs: whether the job
    has inputs of its own. own_engines: whether engines may be written out, which run commands; if not, they are named."""
    mistakes, allowed = _check_keywords(options, files, inputs, own_engines)
    value_mistakes = [line for keyword, value in sorted(allowed.items()) for line in _value_mistakes(keyword, value)]
    joint_mistake = _value_mistake(allowed) if not value_mistakes else ""
    return [*mistakes, *value_mistakes, *([joint_mistake] if joint_mistake else [])]


def check_names(
    options: Mapping[str, Any], files: Collection[str], inputs: bool = True, own_engines: bool = False
) -> None:
    """Raises UsageError for options and files that a job must not name. Other values are not checked."""
    if mistakes := _check_keywords(options, files, inputs, own_engines)[0]:
        raise UsageError("; ".join(mistakes))


def check_engines_are_listed(options: Mapping[str, Any]) -> None:
    """Raises UsageError for an engine that the boards.toml of this host does not name."""
    for keyword, name in _engines_of(options):
        if (keyword, name) != DEFAULT_REFERENCE and not find_engine(name):
            raise UsageError(
                f"{keyword}: {name}: no such engine on the host of the board, whose boards.toml has "
                f"{', '.join(sorted(read_engines())) or 'none'}; wanted a table [engines.{name}] there"
            )


def paths_of(value: Any) -> list[str]:
    """Returns the paths of an option of FILES, of which some are lists."""
    return [str(path) for path in value] if isinstance(value, (list, tuple)) else [str(value)]


def _engines_of(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns each text of options that names an engine, with its keyword."""
    texts = [(key, text) for key in sorted(ENGINES & options.keys()) for text in paths_of(options[key])]
    return [(key, text) for key, text in texts if not (key == "run_sim" and isinstance(options[key], bool))]


def _describe_written_out(text: str, own_engines: bool) -> str:
    """Returns why a job must not have this engine, NAME,KEY=VALUE,..., which runs a command that the text chooses; "" if it
    may."""
    if not own_engines:
        return f"got {text[:80]!r}, wanted the name of an engine of the host's boards.toml"
    try:
        choose_engine(text)
    except (UsageError, BadAddress) as error:
        return str(error)
    return ""


def _check_keywords(
    options: Mapping[str, Any], files: Collection[str], inputs: bool, own_engines: bool
) -> tuple[list[str], dict[str, Any]]:
    """Returns the mistakes in option names and file paths, and the allowed options that have no path."""
    mistakes = [line for keyword in sorted(options) if (line := _refusal(keyword))]
    allowed = {k: v for k, v in options.items() if k in VALUES | FILES}
    for keyword, text in _engines_of(allowed):
        if not ENGINE_NAME.fullmatch(text) and (why := _describe_written_out(text, own_engines)):
            mistakes.append(f"{keyword}: {why}")
            allowed.pop(keyword, None)
    for keyword in sorted(FILES & allowed.keys()):
        value = allowed.pop(keyword)
        several = isinstance(value, (list, tuple)) and keyword == "quantization"
        for path in value if several else [value]:
            if not isinstance(path, str) or path not in files:
                mistakes.append(f"{keyword}: {str(path)[:200]!r} is none of the job's files")
    if "labels" in options and not inputs:
        mistakes.append("labels: wanted inputs, too, to which the labels belong")
    return mistakes, allowed


def _refusal(keyword: str) -> str:
    """Returns why a job must not have an option, or "" if it may."""
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


def _value_mistakes(keyword: str, value: Any) -> list[str]:
    """Returns the mistakes in an option's value, one for each wrong text of a list."""
    if value is None:
        return [f"{keyword}: got nothing, wanted a value"]
    mistake = _value_mistake({keyword: value})
    texts = [text for text in value if isinstance(text, str)] if mistake and isinstance(value, list) else []
    lines = [line for text in texts if len(texts) > 1 and (line := _value_mistake({keyword: [text]}))]
    return list(dict.fromkeys(lines)) or ([mistake] if mistake else [])


def _value_mistake(options: Mapping[str, Any]) -> str:
    """Returns the message with which the command refuses these values, or "". No file is opened."""
    from qverify.cli.python_options import parse_command

    try:
        parse_command("verify", [], {"models": ["model"], "inputs": "input", **options})
    except UsageError as error:
        keyword = f"{next(iter(options))}: "
        return keyword + str(error).removeprefix(keyword) if len(options) == 1 else str(error)
    return ""
