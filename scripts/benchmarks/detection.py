"""The detection rate: seeded faults over real networks (detected, at the exact node, explained) and false alarms on
healthy boards."""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections.abc import Iterable
from typing import Any

from qverify_agents.boards.faulty_runtime import WITHHELD

from benchmarks.detection_explained import families_of
from benchmarks.detection_faults import Plant, Planter
from benchmarks.detection_healthy import SAME, Fleet, Healthy
from benchmarks.detection_subjects import subjects
from benchmarks.measure import show_figures


def main(words: list[str]) -> int:
    options = _options(words)
    print(f"seed {options.seed}", file=sys.stderr, flush=True)
    networks, skipped = subjects(options.models)
    planter, fleet, begun = Planter(options.seed, networks), Fleet(options.seed, networks), time.monotonic()
    plants = list(_shown(map(planter.run, _numbers(options.run, options.count)), options.verbose))
    healthy = list(_shown(map(fleet.run, _numbers(options.healthy_run, options.healthy)), options.verbose))
    healthy += fleet.golden() if options.healthy and options.healthy_run is None else []
    result = summary(plants, healthy) | {
        "seed": options.seed,
        "models": [s.name for s in networks],
        "skipped": skipped | fleet.skipped | planter.homeless,
        "seconds": round(time.monotonic() - begun, 1),
    }
    show_figures(result, options.path)
    return 0 if _good(result) else 1


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench detection", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the same number draws the same")
    parser.add_argument("--count", type=int, default=264, help="faults to plant")
    parser.add_argument("--healthy", type=int, default=100, help="healthy runs")
    parser.add_argument("--models", nargs="*", help="names, all by default")
    parser.add_argument("--run", type=int, help="only the planting of this number")
    parser.add_argument("--healthy-run", type=int, help="only the healthy run of this number")
    parser.add_argument("--verbose", action="store_true", help="every run on stderr, not only the bad ones")
    parser.add_argument("--json", dest="path", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(words)
    if options.run is not None and options.healthy_run is None:
        options.healthy = 0
    if options.healthy_run is not None and options.run is None:
        options.count = 0
    return options


def _numbers(only: int | None, count: int) -> Iterable[int]:
    """Returns the numbers of the runs: only this one, or all."""
    return [only] if only is not None and count else range(count)


def _shown(runs: Iterable[Any], verbose: bool) -> Iterable[Any]:
    """Yields the runs and prints the bad ones, or all if verbose."""
    for at, run in enumerate(runs):
        bad = bool(run.alarm) if isinstance(run, Healthy) else run.changed and not (run.detected and run.located)
        if verbose or bad:
            print(f"{'BAD ' if bad else ''}{run}", file=sys.stderr, flush=True)
        elif sys.stderr.isatty():
            print(f"\r{type(run).__name__} {at + 1}", end="", file=sys.stderr)
        yield run


def summary(plants: list[Plant], healthy: list[Healthy]) -> dict[str, Any]:
    """Rates are of the plantings that changed a byte of a compared tensor; explained, of those of kinds not withheld:
    the true cause was confirmed on the board; right_candidate: it fits every byte and was not confirmed, for a reason
    that `not_confirmed` groups."""
    by_kind: dict[str, list[Plant]] = {}
    for plant in plants:
        for fault in plant.faults:
            by_kind.setdefault(fault.kind, []).append(plant)
    changed = [p for p in plants if p.changed]
    apart = [p.both for p in changed if p.both is not None]
    return {
        **_tally(plants),
        "two_faults": {
            "planted": sum(len(p.faults) == 2 for p in plants),
            **_tally([p for p in plants if len(p.faults) == 2]),
            "independent": len(apart),
            "both_located": sum(map(bool, apart)),
        },
        "over_a_bad_link": _tally([p for p in plants if p.link]),
        "withheld": _tally([p for p in plants if len(p.faults) == 1 and p.faults[0].kind in WITHHELD]),
        "detected_without_a_changed_byte": sum(p.detected for p in plants if not p.changed),
        "median_list": _median_list(changed),
        "healthy_runs": len(healthy),
        "healthy_but_different": sum(h.kind != SAME for h in healthy),
        "gave_other_bytes": sum(h.differs for h in healthy),
        "false_alarms": sum(bool(h.alarm) for h in healthy),
        "healthy_by_kind": {
            k: _healthy([h for h in healthy if h.kind == k]) for k in sorted({h.kind for h in healthy})
        },
        "alarms": [str(h) for h in healthy if h.alarm],
        "missed": [str(p) for p in changed if not (p.detected and p.located) or p.both is False],
        "unexplained": [_describe(p) for p in changed if not p.explained and p.fault.kind not in WITHHELD],
        "not_confirmed": _not_confirmed([p for p in changed if p.explained is False and p.fault.kind not in WITHHELD]),
        "explained_withheld": [
            f"{_describe(p)}{', right on two other frames' if p.right_again else ''}"
            for p in changed
            if p.explanations and p.fault.kind in WITHHELD
        ],
        "per_kind": {kind: _tally(found) | {"repeat": _repeat(found)} for kind, found in sorted(by_kind.items())},
    }


def _tally(plants: list[Plant]) -> dict[str, Any]:
    changed = [p for p in plants if p.changed]
    known = [p for p in changed if p.explained is not None and p.fault.kind not in WITHHELD]
    withheld = [p for p in changed if p.explanations is not None and p.fault.kind in WITHHELD]
    return {
        "planted": len(plants),
        "changed_bytes": len(changed),
        "detected": sum(p.detected for p in changed),
        "located": sum(p.located for p in changed),
        "explained": sum(bool(p.explained) for p in known) if known else None,
        "right_candidate": sum(not p.explained and _has_right_candidate(p) for p in known) if known else None,
        "explainable": len(known) if known else None,
        "false_explanations": sum(bool(p.explanations) and not p.right_again for p in withheld) if withheld else None,
        "withheld_but_a_known_fault": sum(p.right_again for p in withheld) if withheld else None,
    }


def _has_right_candidate(plant: Plant) -> bool:
    """Returns whether the true cause fits every byte, confirmed or not."""
    return bool(families_of(plant.fault.kind) & plant.candidates)


def _describe(plant: Plant) -> str:
    """Returns the planting with its explanations and candidates as text."""
    candidates = f", candidates {sorted(plant.candidates)}: {plant.unconfirmed}" if plant.candidates else ""
    return f"{plant} said {[sorted(group) for group in plant.explanations or []]}{candidates}"


def _not_confirmed(plants: list[Plant]) -> dict[str, dict[str, int]]:
    """Returns, by what triage says of it with numbers as N, the plants of known kinds without a right explanation.
    wrongly: another cause was confirmed. right_candidate: the true cause fits every byte."""
    by_why: dict[str, list[Plant]] = {}
    for plant in plants:
        by_why.setdefault(re.sub(r"[0-9]+", "N", plant.unconfirmed) or "no cause fits", []).append(plant)
    return {
        why: {
            "plants": len(found),
            "located": sum(p.located for p in found),
            "wrongly": sum(bool(p.explanations) for p in found),
            "right_candidate": sum(map(_has_right_candidate, found)),
        }
        for why, found in sorted(by_why.items())
    }


def _median_list(changed: list[Plant]) -> float | None:
    sizes = [len(p.explanations) for p in changed if p.explanations]
    return statistics.median(sizes) if sizes else None


def _healthy(runs: list[Healthy]) -> dict[str, int]:
    return {
        "runs": len(runs),
        "gave_other_bytes": sum(h.differs for h in runs),
        "not_passed": sum(h.verdict != "PASSED" for h in runs),
        "alarms": sum(bool(h.alarm) for h in runs),
    }


def _repeat(found: list[Plant]) -> list[int]:
    """Returns up to five --run numbers whose planting changes bytes, or, if none does, of any plantings."""
    return [p.number for p in found if p.changed][:5] or [p.number for p in found][:5]


def _good(result: dict[str, Any]) -> bool:
    found, explainable = result["changed_bytes"], result["explainable"]
    named = explainable is None or result["explained"] + result["right_candidate"] >= 0.95 * explainable
    return bool(
        result["detected"] == found
        and result["located"] >= 0.99 * found
        and named
        and not result["false_explanations"]
        and not result["false_alarms"]
        and not result["detected_without_a_changed_byte"]
    )
