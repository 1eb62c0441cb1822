"""The stack of a run (versions, options, models, inputs, sides, what is stated about it), and what differs between two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qverify.report.difference import FactChange
from qverify.report.document import ReportDocument

IGNORED_SETTINGS = ("spot_seed", "uri")  # random in each run, or compared elsewhere
MEASURED_SETTINGS = ("temperature_c", "frequency_mhz", "measured_s", "seconds_of_the_command", "pulled", "recovered")


def describe_stack(report: ReportDocument, measured: bool = True) -> dict[str, str]:
    """Returns everything that a run's results may depend on, by name: versions, options, hashes of models and inputs, engines and
    settings of the sides, gates, and what is stated about the run. measured: also settings that differ from run to run without
    anybody's doing (temperature, seconds)."""
    ignored = IGNORED_SETTINGS if measured else (*IGNORED_SETTINGS, *MEASURED_SETTINGS)
    states = ("state",) if measured else ()  # what became of a side is an outcome
    facts = {"qverify": report.qverify, "every node judged": str(report.dump_all), "criteria": report.criteria}
    fallbacks = list_fallbacks(report)
    facts |= {f"decimals {name}": str(value) for name, value in report.decimals.items()}
    facts |= {f"board {at}": board for at, board in enumerate(report.boards)}
    facts |= {f"model {row.get('kind')} sha256": str(row.get("sha256")) for row in report.models}
    facts |= {f"input {row.get('name')} sha256": str(row.get("sha256")) for row in report.inputs}
    facts |= {f"fact {name}": value for name, value in report.facts.items()}
    facts |= {f"environment {name}": value for name, value in report.environment.items()}
    for side in report.sides:
        name = f"side {side.get('name')}"
        facts |= {f"{name} {what}": str(side.get(what)) for what in ("engine", "version", "host", *states)}
        facts |= {f"{name} fell back": ", ".join(nodes) for n, nodes in fallbacks.items() if n == side.get("name")}
        facts |= {f"{name} {what}": value for what, value in _stated(side)}
        facts |= {f"{name} arithmetic": ""} if side.get("name") == "simulator" and not measured else {}  # none stated
        settings = side.get("settings")
        facts |= (
            {f"{name} {k}": str(v) for k, v in settings.items() if k not in ignored}
            if isinstance(settings, dict)
            else {}
        )
    for pair in report.pairs:
        name = f"{pair.a}~{pair.b}"
        facts |= {f"{name} gate": pair.gate, f"{name} scope": pair.scope}
        facts |= {f"{name} relaxed": "; ".join(pair.relaxed)} if measured else {}  # it says what was found, too
    return facts


def _stated(side: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields what a side states about itself, with its value: versions of what took part, name and tags in boards.toml."""
    for key, title in (("ledger", ""), ("tags", "tag ")):
        values = side.get(key)
        for name, value in values.items() if isinstance(values, dict) else ():
            yield f"{title}{name}", str(value)
    if side.get("inventory"):
        yield "inventory", str(side["inventory"])


def list_fact_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[FactChange]:
    """Returns the facts that differ between two stacks, in their order."""
    names = dict.fromkeys([*before, *now])
    return [FactChange(name, before.get(name), now.get(name)) for name in names if before.get(name) != now.get(name)]


def list_fallbacks(report: ReportDocument) -> dict[str, list[str]]:
    """Returns the nodes that fell back, by side; [] for a side that says where its nodes ran, if none did."""
    rows = {
        str(side.get("name")): side["placement"] for side in report.sides if isinstance(side.get("placement"), list)
    }
    return {
        name: [str(p.get("node")) for p in placed if isinstance(p, dict) and p.get("fallback")]
        for name, placed in rows.items()
        if placed
    }
