"""Makes the matrix of many runs: rows and columns by facts, the run that decides each cell, and what changed from column to
column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from qverify.closest_names import did_you_mean
from qverify.errors import UsageError
from qverify.plural import count
from qverify.report.difference import FactChange
from qverify.report.document import TaskNumbers
from qverify.report.matrix.document import (
    CellChange,
    Kind,
    MatrixCell,
    MatrixColumn,
    MatrixDocument,
    MatrixRow,
    Outcome,
    StoredRun,
    UnreadableRun,
)
from qverify.report.matrix.natural_order import natural
from qverify.report.matrix.stack_columns import STACK, add_stacks, fill_in
from qverify.report.stack import list_fact_changes
from qverify.report.stated_facts import OWN, USUAL

ROWS_BY, COLUMNS_BY = ("model", "inputs"), ("board", "firmware", "toolchain", "qverify")
SUBJECT = ("model", "inputs", "board")  # what is verified, as against the versions with which it is
MAX_CELLS, MAX_RUNS = 100_000, 50_000
NO_VERDICT = "NO VERDICT"
NOT_STATED = "not stated"
_RANK = {"FAILED": 0, None: 1, "INCONCLUSIVE": 2, "PASSED": 3}
_OF_FACTS = {  # names in the stack of what these facts are made of
    "board": ("board 0", "side board host", "side board inventory", "side board arch"),
    "runtime": ("side board engine", "side board version"),
    "onnxruntime": ("side reference version",),
    "arithmetic": ("side simulator arithmetic",),
    "qverify": ("qverify", "side simulator version"),
    "host": ("side reference host", "side simulator host"),
    "system": ("side board system",),
    "arch": ("side board arch",),
}
_KINDS: tuple[Kind, ...] = ("verdict", "blame", "numbers")
Key = tuple[str, ...]


@dataclass(slots=True)
class _Cell:
    """The runs of a cell by subject, each the newest first."""

    by_subject: dict[Key, list[StoredRun]] = field(default_factory=lambda: defaultdict(list))

    @property
    def deciding(self) -> tuple[Key, StoredRun]:
        """The subject with the worst verdict, and its newest run."""
        return min(((key, runs[0]) for key, runs in self.by_subject.items()), key=lambda pair: _RANK[pair[1].verdict])


def build_matrix(
    runs: Sequence[StoredRun],
    rows_by: Sequence[str] = ROWS_BY,
    columns_by: Sequence[str] = COLUMNS_BY,
    unreadable: Sequence[UnreadableRun] = (),
    by_date: bool = False,
) -> MatrixDocument:
    """Returns the matrix of the runs. rows_by, columns_by: names of facts. by_date: columns are in the order of their oldest runs,
    not of their versions. Raises UsageError for a fact that no run has, one that
    is given twice, and too many cells."""
    if STACK in (*rows_by, *columns_by):
        subjects = [name for name in rows_by if name != STACK] or SUBJECT
        add_stacks(runs, lambda run: _key(run, subjects))
    _check_facts(runs, rows_by, columns_by)
    grid: dict[tuple[Key, Key], _Cell] = defaultdict(_Cell)
    oldest: dict[Key, datetime] = {}
    in_columns, placed = fill_in(runs, columns_by, lambda run: _key(run, rows_by))
    newest_first = sorted(
        enumerate(runs), key=lambda pair: (_when(pair[1].date), -_RANK[pair[1].verdict]), reverse=True
    )
    for at, run in newest_first:
        row, column = _key(run, rows_by), in_columns[at]
        grid[row, column].by_subject[_key(run, SUBJECT)].append(run)
        oldest[column] = min(oldest.get(column, _when(run.date)), _when(run.date))
    rows = sorted({row for row, _ in grid}, key=natural)
    columns = sorted(oldest, key=lambda key: (oldest[key] if by_date else datetime.min, natural(key)))
    if len(rows) * len(columns) > MAX_CELLS:
        raise UsageError(
            f"{len(rows)} rows by {len(columns)} columns, {len(rows) * len(columns)} cells; wanted at most {MAX_CELLS}. Next: give "
            "fewer reports, or --rows and --columns with fewer values"
        )
    matrix = MatrixDocument(verdicts="same", why="", rows_by=[*rows_by], columns_by=[*columns_by], runs=len(runs))
    matrix.unreadable = [*unreadable]
    matrix.rows = [MatrixRow(_name(row), _named(rows_by, row)) for row in rows]
    matrix.columns = [MatrixColumn(_name(column), _named(columns_by, column)) for column in columns]
    stacks: dict[tuple[tuple[str, str], ...], int] = {}
    for at, row in enumerate(rows):
        _fill_row(matrix, at, [grid.get((row, column)) for column in columns], stacks)
    matrix.stacks = [dict(stack) for stack in stacks]
    _compare_columns(matrix)
    matrix.verdicts, matrix.why = _judge(matrix)
    matrix.notes = _notes(matrix, runs, placed)
    return matrix


def default_axes(runs: Sequence[StoredRun], rows: Sequence[str], columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the facts of rows and columns: those that were chosen, or else those of ROWS_BY and COLUMNS_BY that differ between the
    runs and are not in the other."""
    chosen_rows = [*rows] or _differing(runs, [name for name in ROWS_BY if name not in columns])
    return chosen_rows, [*columns] or _differing(runs, [name for name in COLUMNS_BY if name not in chosen_rows])


def _differing(runs: Sequence[StoredRun], names: Sequence[str]) -> list[str]:
    differing = [name for name in names if len({run.facts.get(name, "") for run in runs}) > 1]
    return differing or list(names[:1])


def known_facts(runs: Iterable[StoredRun]) -> list[str]:
    """Returns the names of the facts that at least one of the runs has."""
    return list(dict.fromkeys(name for run in runs for name, value in run.facts.items() if value))


def _check_facts(runs: Sequence[StoredRun], rows_by: Sequence[str], columns_by: Sequence[str]) -> None:
    known = [*known_facts(runs), STACK]
    for name in (*rows_by, *columns_by):
        if name not in known and name not in OWN and name not in USUAL:
            raise UsageError(f"{name}: no run states this fact; known: {', '.join(known)}{did_you_mean(name, known)}")
    if twice := sorted({name for name in rows_by if name in columns_by}):
        raise UsageError(f"{twice[0]} is in the rows and in the columns; give it once")


def _key(run: StoredRun, names: Sequence[str]) -> Key:
    return tuple(run.facts.get(name, "") for name in names)


def _name(key: Key) -> str:
    return ", ".join(value or NOT_STATED for value in key)


def _named(names: Sequence[str], key: Key) -> dict[str, str]:
    return dict(zip(names, key, strict=True))


def _when(date: str) -> datetime:
    """Returns a date as a time; one that cannot be read is older than every other."""
    try:
        when = datetime.fromisoformat(date)
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.min.replace(tzinfo=UTC)


def _fill_row(
    matrix: MatrixDocument, at: int, cells: Sequence[_Cell | None], stacks: dict[tuple[tuple[str, str], ...], int]
) -> None:
    """Adds the cells of a row, and what changed in it."""
    row, history = matrix.rows[at], _History(matrix.columns_by, [(n, c) for n, c in enumerate(cells) if c is not None])
    for number, cell in history.cells:
        made = _cell(at, number, cell, stacks)
        made.change = history.change_at(number, cell)
        matrix.cells.append(made)
        if made.change is not None:
            row.differs = number if row.differs is None else row.differs
            matrix.columns[number].differs += 1
            if made.change.kind == "verdict":
                row.changed = number if row.changed is None else row.changed
                matrix.columns[number].changed += 1
    unsure = cells[-1] is None or any(
        len({run.verdict for run in runs}) > 1 or runs[0].verdict is None
        for _, cell in history.cells
        for runs in cell.by_subject.values()
    )
    row.verdicts = "changed" if row.changed is not None else "not known" if unsure else "same"


@dataclass(slots=True)
class _History:
    """The cells of a row, in the order of columns. Runs of a cell that disagree say nothing of the column: what they disagree in is
    neither a change nor compared with."""

    columns_by: Sequence[str]
    cells: list[tuple[int, _Cell]]

    def change_at(self, number: int, cell: _Cell) -> CellChange | None:
        """Returns the change of a cell from the cells before it, the gravest of its subjects; None if nothing changed. A subject
        that was not run before is compared with the one that decided the cell before."""
        changes = list[CellChange]()
        for key, runs in cell.by_subject.items():
            for kinds in _KINDS[:1], _KINDS[:2], _KINDS:
                if not _agree(runs, kinds):
                    break
                earlier = self._before(number, key, kinds)
                if earlier is not None and (kind := _kind(earlier[1], runs[0], kinds)) is not None:
                    if not self._may_be_chance(kind, earlier[1], runs[0], key):
                        changes.append(self._describe(kind, earlier, runs[0], key))
                        break
        return min(changes, key=lambda change: _KINDS.index(change.kind), default=None)

    def _before(self, number: int, key: Key, kinds: Sequence[Kind]) -> tuple[int, StoredRun] | None:
        """Returns the last column before `number` in which this subject's runs agree, and its newest run there; of a subject
        without any, the run that decided the last such cell of another."""
        before = [(at, cell) for at, cell in reversed(self.cells) if at < number]
        own = [(at, cell.by_subject[key]) for at, cell in before if key in cell.by_subject]
        if own:
            return next(((at, runs[0]) for at, runs in own if _agree(runs, kinds)), None)
        others = ((at, cell.by_subject[cell.deciding[0]]) for at, cell in before)
        return next(((at, runs[0]) for at, runs in others if _agree(runs, kinds)), None)

    def _may_be_chance(self, kind: Kind, before: StoredRun, now: StoredRun, key: Key) -> bool:
        """Returns whether both outcomes were seen with one stack: in a cell of this subject whose runs disagree."""
        kinds = _KINDS[: _KINDS.index(kind) + 1]
        for _, cell in self.cells:
            runs = cell.by_subject.get(key, [])
            if not _agree(runs, kinds) and (
                kind == "numbers" or all(any(_kind(seen, one, kinds) is None for seen in runs) for one in (before, now))
            ):
                return True
        return False

    def _describe(self, kind: Kind, earlier: tuple[int, StoredRun], now: StoredRun, key: Key) -> CellChange:
        before = earlier[1]
        facts = _causes(before, now, self.columns_by)
        others = [
            run
            for _, cell in self.cells
            for run in cell.by_subject.get(key, ())
            if run is not before and run is not now
        ]
        excluded = [fact for fact in facts if _is_excluded([fact], kind, before, now, others)]
        left = [fact for fact in facts if fact not in excluded]
        if len(facts) > 1 and not left and not _is_excluded(facts, kind, before, now, others):
            left, excluded = facts, []  # none of them alone, but all at once were never seen with the other outcome
        return CellChange(kind, earlier[0], outcome(before), outcome(now), left, excluded)


def _agree(runs: Sequence[StoredRun], kinds: Sequence[Kind]) -> bool:
    """Returns whether the runs of one subject in a cell agree in these kinds of outcome."""
    return all(_kind(runs[0], run, kinds) is None for run in runs[1:])


def _is_excluded(
    facts: Sequence[FactChange], kind: Kind, before: StoredRun, now: StoredRun, others: Iterable[StoredRun]
) -> bool:
    """Returns whether facts, all at once, are not the cause of a change: another run of the row has their values from before
    and the outcome of now, or the reverse."""
    kinds = _KINDS[: _KINDS.index(kind) + 1]
    for run in others:
        as_before = all(run.stack.get(fact.what) == fact.before for fact in facts)
        as_now = all(run.stack.get(fact.what) == fact.now for fact in facts)
        if (as_before and _kind(now, run, kinds) is None) or (as_now and _kind(before, run, kinds) is None):
            return True
    return False


def _cell(row: int, column: int, cell: _Cell, stacks: dict[tuple[tuple[str, str], ...], int]) -> MatrixCell:
    _, run = cell.deciding
    every = [one for runs in cell.by_subject.values() for one in runs]
    made = MatrixCell(
        row,
        column,
        run.verdict,
        run.source,
        run.date,
        run.why,
        run.blame,
        run.equal,
        run.worst,
        run.tasks,
        run.seconds,
        run.caveats,
        run.link,
        run.gate,
        len(every),
        [one.source for one in every],
        len(cell.by_subject),
    )
    made.disagree = _disagreements(run, every)
    made.stack = stacks.setdefault(tuple(run.stack.items()), len(stacks))
    return made


def _disagreements(deciding: StoredRun, runs: Sequence[StoredRun]) -> list[str]:
    """Returns what the other runs of a cell gave, if it is another verdict."""
    others = defaultdict[str, list[StoredRun]](list)
    for run in runs:
        if run.verdict != deciding.verdict:
            others[run.verdict or NO_VERDICT].append(run)
    return [
        f"{count(len(found), 'run')} of {len(runs)} {verdict}, such as {found[0].source} ({found[0].date or 'no date'}"
        f"{f', {board}' if (board := found[0].facts.get('board')) else ''})"
        for verdict, found in sorted(others.items())
    ]


def _kind(before: StoredRun, now: StoredRun, kinds: Sequence[Kind] = _KINDS) -> Kind | None:
    """Returns the gravest of these kinds in which two outcomes differ."""
    if before.verdict != now.verdict:
        return "verdict"
    if "blame" in kinds and before.blame != now.blame:
        return "blame"
    return "numbers" if "numbers" in kinds and _numbers(before) != _numbers(now) else None


def _numbers(run: StoredRun) -> tuple[object, ...]:
    return run.equal, repr(run.worst), [repr(_values(task)) for task in run.tasks]


def _values(task: TaskNumbers) -> list[tuple[str, int, list[tuple[str, float]]]]:
    return [(side.side, side.frames, sorted(side.values.items())) for side in task.sides]


def outcome(run: StoredRun | MatrixCell) -> str:
    """Returns what a run gave, in words: verdict, blame, and the tensor that differs most."""
    texts = [run.verdict or NO_VERDICT, f"blame {run.blame}" if run.blame else ""]
    if run.worst is not None:
        texts.append(f"{run.worst.tensor} differs most{describe_numbers(run, ', ')}")
    elif run.equal:
        texts.append("equal bytes")
    return "; ".join(text for text in texts if text)


def describe_numbers(run: StoredRun | MatrixCell, before: str = "") -> str:
    """Returns the distance of the tensor that differs most, after `before`; "" without one."""
    if run.worst is None:
        return ""
    numbers = {"max_abs": run.worst.max_abs, "LSB": run.worst.max_lsb, "cosine": run.worst.cosine}
    text = " ".join(f"{name} {_short(name, value)}" for name, value in numbers.items() if value is not None)
    return f"{before}{text}" if text else ""


def _short(name: str, value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if name == "cosine" and abs(value) < 2 else f"{value:.4g}"


def _causes(before: StoredRun, now: StoredRun, columns_by: Sequence[str]) -> list[FactChange]:
    """Returns what differs between two stacks, without the facts that the columns are made of."""
    return [change for change in _known_changes(before.stack, now.stack) if not _is_of(change.what, columns_by)]


def _known_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[FactChange]:
    """Returns the facts that differ between two stacks and that both state."""
    return [change for change in list_fact_changes(before, now) if None not in (change.before, change.now)]


def _is_of(what: str, columns_by: Sequence[str]) -> bool:
    return any(
        what in (f"fact {name}", f"side board tag {name}", f"side board {name}", *_OF_FACTS.get(name, ()))
        for name in columns_by
    )


def _compare_columns(matrix: MatrixDocument) -> None:
    """Adds to each column what differs from the column before, in every row or in some."""
    cells = {(cell.row, cell.column): cell for cell in matrix.cells}
    for number, column in enumerate(matrix.columns[1:], 1):
        tally, rows = dict[tuple[str, str | None, str | None], int](), 0
        for at in range(len(matrix.rows)):
            before, now = cells.get((at, number - 1)), cells.get((at, number))
            if before is None or now is None:
                continue
            rows += 1
            for change in _known_changes(matrix.stacks[before.stack], matrix.stacks[now.stack]):
                if not _is_of(change.what, matrix.columns_by):
                    entry = change.what, change.before, change.now
                    tally[entry] = tally.get(entry, 0) + 1
        column.stack = [FactChange(*entry) for entry, times in tally.items() if times == rows]
        column.partly = [FactChange(*entry) for entry, times in tally.items() if times < rows][:MAX_PARTLY]


MAX_PARTLY = 40


def _judge(matrix: MatrixDocument) -> tuple[Outcome, str]:
    """Returns whether every row keeps its verdict, and the reason if not."""
    changed = [row for row in matrix.rows if row.verdicts == "changed"]
    if changed:
        first = changed[0]
        assert first.changed is not None
        return "changed", (
            f"the verdict of {count(len(changed), 'row')} changed; {first.name} at {matrix.columns[first.changed].name}"
        )
    if not matrix.cells:
        return "not known", "no run"
    unknown = [row for row in matrix.rows if row.verdicts == "not known"]
    if unknown:
        return "not known", (
            f"{count(len(unknown), 'row')} without a run in the last column, without a verdict, or with runs that disagree; first {unknown[0].name}"
        )
    if len(matrix.columns) < 2:
        return "not known", "one column, so nothing was compared"
    if split := next((cell for cell in matrix.cells if cell.disagree), None):
        return (
            "not known",
            f"runs of one cell disagree: {matrix.rows[split.row].name}, {matrix.columns[split.column].name}",
        )
    if matrix.unreadable:
        return "not known", f"{count(len(matrix.unreadable), 'file')} could not be read"
    return "same", ""


def _notes(matrix: MatrixDocument, runs: Sequence[StoredRun], placed: int) -> list[str]:
    notes = list[str]()
    if placed:
        notes.append(
            f"{count(placed, 'run')} without a fact of the columns: placed in the one column that the rest of the stack allows"
        )
    for name in matrix.columns_by if not placed else ():
        lacking = sum(not run.facts.get(name) for run in runs)
        if lacking:
            notes.append(f"{count(lacking, 'run')} of {len(runs)} without {name}; verify --fact {name}=VALUE states it")
    many = sum(cell.runs > 1 for cell in matrix.cells)
    if many:
        several = "1 cell has" if many == 1 else f"{many} cells have"
        notes.append(
            f"{several} several runs: of each model, inputs and board the newest counts, and of these the worst is shown"
        )
    return notes
