"""Which stack each run belongs to, as a fact by which columns can be made, and the columns of runs that do not state everything.

A stack is a combination of versions, settings and stated facts. What is constant in every row (the soc of a board) does not tell stacks
apart. A fact that a run does not state is unknown: the run belongs to the stack that the rest of its facts allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from qverify.report.matrix.document import StoredRun
from qverify.report.matrix.natural_order import natural

STACK = "stack"  # the name of the fact
MAX_NAMED = 3  # facts in the name of a stack
_OF_SUBJECTS = ("model ", "input ", "board ", "every node judged", "criteria", "decimals ")
_OF_RUNS = (" gate", " scope", " relaxed", " host", " inventory", " arch", " fell back", " command", " runner")
Key = tuple[str, ...]
Stack = Mapping[str, str]


def stack_of(run: StoredRun) -> dict[str, str]:
    """Returns the facts of a run that belong to a stack: neither to model, inputs and board, nor to how it was judged."""
    return {
        name: value
        for name, value in run.stack.items()
        if not name.startswith(_OF_SUBJECTS) and not name.endswith(_OF_RUNS)
    }


def add_stacks(runs: Sequence[StoredRun], row_of: Callable[[StoredRun], Key]) -> None:
    """Adds to each run the fact STACK: the number of its stack, in the order of the oldest runs, and what is new in it."""
    stacks = [stack_of(run) for run in runs]
    varying = _varying(runs, stacks, row_of)
    keys = [tuple((name, stack[name]) for name in varying if name in stack) for stack in stacks]
    whole = _complete(keys, [run.date for run in runs])
    oldest: dict[tuple[tuple[str, str], ...], str] = {}
    for key, run in zip(keys, runs, strict=True):
        oldest[whole[key]] = min(oldest.get(whole[key], run.date), run.date)
    ordered = sorted(oldest, key=lambda key: (oldest[key], natural(tuple(part for fact in key for part in fact))))
    digits, names, before = len(str(len(ordered))), dict[tuple[tuple[str, str], ...], str](), dict[str, str]()
    for number, key in enumerate(ordered, 1):
        now = dict(key)
        new = [f"{_short(name)} {value}" for name, value in now.items() if before.get(name) != value]
        more = f" and {len(new) - MAX_NAMED} more" if len(new) > MAX_NAMED else ""
        names[key] = f"{number:0{digits}}: {', '.join(new[:MAX_NAMED])}{more}".removesuffix(": ")
        before = now
    for key, run in zip(keys, runs, strict=True):
        run.facts[STACK] = names[whole[key]]


def _varying(runs: Sequence[StoredRun], stacks: Sequence[Stack], row_of: Callable[[StoredRun], Key]) -> list[str]:
    """Returns the names of the facts that have several values in at least one row."""
    values: dict[tuple[Key, str], str] = {}
    varying: dict[str, None] = {}
    for run, stack in zip(runs, stacks, strict=True):
        row = row_of(run)
        for name, value in stack.items():
            if values.setdefault((row, name), value) != value:
                varying[name] = None
    return [*varying]


def _complete(
    keys: Sequence[tuple[tuple[str, str], ...]], dates: Sequence[str]
) -> dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Returns the stack of each key: itself, or the stack of more facts that it agrees with; of several, the one that was run
    at the nearest date."""
    seen: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for key, date in zip(keys, dates, strict=True):
        seen[key].append(date)
    most_stated = sorted(seen, key=len, reverse=True)
    found: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
    stacks: list[tuple[tuple[str, str], ...]] = []
    for key in most_stated:
        fitting = [stack for stack in stacks if len(stack) > len(key) and set(key) <= set(stack)]
        if fitting:
            found[key] = min(fitting, key=lambda stack: _distance(seen[stack], seen[key]))
        else:
            found[key] = key
            stacks.append(key)
    return found


def _distance(dates: Iterable[str], others: Iterable[str]) -> float:
    from datetime import datetime

    def seconds(date: str) -> float:
        try:
            return datetime.fromisoformat(date).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0

    other_seconds = [seconds(date) for date in others]
    return min((abs(seconds(date) - other) for date in dates for other in other_seconds), default=0.0)


def _short(name: str) -> str:
    """Returns the name of a fact without the words that most have."""
    return name.removeprefix("fact ").removeprefix("side board tag ").removeprefix("side board ").removeprefix("side ")


def fill_in(
    runs: Sequence[StoredRun], names: Sequence[str], row_of: Callable[[StoredRun], Key]
) -> tuple[dict[int, Key], int]:
    """Returns the column of each run by its place, and how many runs do not state a fact of it and were placed by the rest of
    their stack. names: the facts that columns are made of. A run that several columns or none fits stays where nothing is stated."""
    keys = {at: tuple(run.facts.get(name, "") for name in names) for at, run in enumerate(runs)}
    lacking = [at for at, key in keys.items() if not all(key)]
    stated = {key for key in keys.values() if all(key)}
    if not lacking or not stated:
        return keys, 0
    stacks = [stack_of(run) for run in runs]
    varying = _varying(runs, stacks, row_of)
    known: dict[Key, list[dict[str, str]]] = defaultdict(list)
    for at, key in keys.items():
        if all(key):
            one = {name: stacks[at][name] for name in varying if name in stacks[at]}
            if one not in known[key]:
                known[key].append(one)
    placed = 0
    for at in lacking:
        rest = {name: stacks[at][name] for name in varying if name in stacks[at]}
        fitting = [
            key
            for key in stated
            if all(not a or a == b for a, b in zip(keys[at], key, strict=True))
            and any(all(stack.get(name, value) == value for name, value in rest.items()) for stack in known[key])
        ]
        if len(fitting) == 1 and rest:
            keys[at], placed = fitting[0], placed + 1
    return keys, placed
