"""The options that a job may have: those of qverify.verify, except options that run a command, load code, define how a board
is reached, or name a file that does not belong to the job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from qverify.closest_names import closest_names
from qverify.errors import UsageError
from qverify.options.commands import keywords
from qverify.options.engines import ONNXRUNTIME
from qverify.options.option import RUNS_CODE
from qverify.session.chosen_sides import choose_engine
from qverify_agents.errors import BadAddress
from qverify_agents.inventory import find_engine, read_engines
from qverify_agents.inventory_tables import ENGINE_NAME

JOB_OPTIONS = keywords("verify")  # a job verifies
FILES = frozenset(k for k, option in JOB_OPTIONS.items() if option.job == "file")  # paths of the job's files
VALUES = frozenset(keyword for keyword, option in JOB_OPTIONS.items() if option.job == "value")
REFUSED = {keyword: option.job for keyword, option in JOB_OPTIONS.items() if keyword not in VALUES | FILES}  # and why
ENGINES = frozenset(k for k, option in JOB_OPTIONS.items() if option.engine)  # options that may name engines
ONE_NETWORK = {  # texts of options of which a job may have some only, since it verifies one network
    "check": ("batch", "it opens a second network; a job checks the order of frames (order)"),
    "shape": ("{", "several shapes are several networks; give each a job of its own"),
}
DEFAULT_REFERENCE = ("reference", ONNXRUNTIME)


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
            is_folder = keyword == "labels" and isinstance(path, str) and any(f.startswith(f"{path}/") for f in files)
            if not isinstance(path, str) or not (path in files or is_folder):
                mistakes.append(f"{keyword}: {str(path)[:200]!r} is none of the job's files")
    if isinstance(allowed.get("decoder"), str) and ".npy" in allowed["decoder"]:
        mistakes.append("decoder: a job must not name a file of the host (priors=FILE); wanted the numbers")
        allowed.pop("decoder")
    if isinstance(allowed.get("decoder"), str) and ":" in allowed["decoder"]:
        mistakes.append(
            f"decoder: {str(allowed.pop('decoder'))[:80]!r}: a job must not name a function: {RUNS_CODE}; wanted a packaged decoder"
        )
    for keyword, (refused, why) in ONE_NETWORK.items():
        value = allowed.get(keyword, ())
        if any(refused in text for text in _texts_within(value)):
            mistakes.append(f"{keyword}: a job must not have {refused!r}: {why}")
            allowed.pop(keyword)
    if "labels" in options and not inputs:
        mistakes.append("labels: wanted inputs, too, to which the labels belong")
    return mistakes, allowed


def _texts_within(value: Any) -> list[str]:
    """Returns the texts of an option: of a text, a list or a mapping."""
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else [value]
    return [text for text in inside if isinstance(text, str)]


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
    from qverify.compare.roles import is_role_gate, parse_role_gate
    from qverify.session.requests.parse_command import parse_command

    checked, gates = dict(options), options.get("gate", ())
    further = (
        [g for g in gates if isinstance(g, str) and (g.startswith("task:") or is_role_gate(g))]
        if isinstance(gates, (list, tuple))
        else []
    )
    if further:  # what they need is in files, which are not opened here
        checked["gate"] = [gate for gate in gates if gate not in further]
    if "decoder" in options:
        checked = {"task": "classification", **checked}
    try:
        for gate in further:
            if is_role_gate(gate):
                parse_role_gate(gate)
        parse_command("verify", [], {"models": ["model"], "inputs": "input", **checked})
    except UsageError as error:
        keyword = f"{next(iter(options))}: "
        return keyword + str(error).removeprefix(keyword) if len(options) == 1 else str(error)
    return ""
