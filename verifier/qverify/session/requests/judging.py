"""Reads what counts as equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qverify.compare.criteria import DIGITS, GATES, RULE
from qverify.compare.gate_text import parse_gates
from qverify.compare.options import Options
from qverify.compare.vendor_criteria import find_gates
from qverify.errors import OptionsError
from qverify.options.given import Given
from qverify.report.stated_facts import parse_facts

NAMES = ("digits", "dump_all", "rule", *(gate.option for gate in GATES), "nan_equal", "relax_board", "strict")


def read_judging(given: Given, roles: Mapping[str, Any] | None = None, has_task: bool = False) -> Options:
    """Returns the options of the comparison. roles: the roles of outputs that the description states. has_task: whether the
    command measures a task. Raises OptionsError for a limit that is given twice, and for a gate that the command lacks."""
    values, named = given.only(*NAMES), set(given.named.intersection((*NAMES, "facts")))
    for name, value in parse_gates(tuple(gate for gate in given["gates"] if not is_of_rung(gate))).items():
        if name in named:
            raise OptionsError(f"--gate and the option for {name.replace('_', ' ')} are both given; give one")
        values[name] = value
        named.add(name)
    if "tokens_top" in values and given.get("steps") is None:
        raise OptionsError("--gate tokens: it is of a sequence; give --steps N")
    if (gates := values.get("role_gates")) and not roles:
        raise OptionsError(f"--gate {gates[0]}: a gate of a role; give --description FILE with [outputs.NAME] roles")
    if (gates := values.get("task_gates")) and not has_task:
        raise OptionsError(f"--gate {gates[0]}: of the main job with -i and --task, --labels or --task-metric")
    values |= {"roles": roles or {}, "criteria": _apply_criteria(given["criteria"], values, named)}
    values |= {k: v for k, v in {"digits": DIGITS, "rule": RULE, "dump_all": False}.items() if values[k] is None}
    return Options(
        digits_given=bool(named & {"digits", "rule"}),
        named=frozenset(named),
        drawings=given.drawings,
        facts=_read_facts(given["facts"]),
        **values,
    )


def is_of_rung(gate: str) -> bool:
    """Returns whether a gate of triage is of one rung of its ladder."""
    return "~" in gate


def _read_facts(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    try:
        return parse_facts(texts)
    except ValueError as error:
        raise OptionsError(f"--fact {error}") from error


def _apply_criteria(vendors: tuple[str, ...], values: dict[str, Any], named: set[str]) -> str:
    """Adds the gates of --criteria to the options and returns the vendor's name, "" without one.

    vendors: the values of --criteria. values: the options by name, to which the gates are added. named: the options
    that the user set; -c may be one of them, it sets the number of decimals of horizon's criteria. Raises OptionsError
    for two vendors, or if an option sets the same limit."""
    if not vendors:
        return ""
    if len(set(vendors)) > 1:
        raise OptionsError(f"--criteria {' and '.join(dict.fromkeys(vendors))}: give one")
    vendor = vendors[0]
    for name, value in find_gates(vendor).items():
        if name == "digits" and name in named:
            continue
        if name in named:
            raise OptionsError(
                f"--criteria {vendor} and an option for {name.replace('_', ' ')} are both given; give one"
            )
        values[name] = value
        named.add(name)
    named.add("criteria")
    return vendor
