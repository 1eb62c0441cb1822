"""Renders the tensors of a report as a table with one row per tensor and one column per pair. It shows the outputs and,
if a pair does not pass, the rows around the first culprit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qverify.plural import count
from qverify.renderers.seconds import describe_seconds
from qverify.renderers.text_view import TextView
from qverify.report.document import Pair, ReportDocument, TensorRow

if TYPE_CHECKING:
    from qverify.renderers.columns import Column

SHORT = {"reference": "ref", "simulator": "sim", "board": "board"}
LEGEND = {
    "=": "= the same bytes",
    "~": "~ other bytes, which the gate allows (elements that differ)",
    "-": "- not compared, or outside the scope",
}
COUNTS = "the table counts elements of other bits, the verdict lines those that do not match to the decimals"
NOT_FORCED = "not forced"
ROWS_AROUND_CULPRIT = 3  # on each side
MAX_OUTPUTS = 10
RANK = {"FAILED": 0, "INCONCLUSIVE": 1, "PASSED": 2}
Rows = dict[str, list[TensorRow | None]]


def name_pair(pair: Pair) -> str:
    """Returns the two sides of a pair, such as `ref ~ sim`."""
    return f"{SHORT.get(pair.a, pair.a)} ~ {SHORT.get(pair.b, pair.b)}"


def render(report: ReportDocument, finals: list[str], view: TextView) -> str:
    """Returns the table, and below it the columns that are equal in all rows and the meaning of its marks; "" if there
    is no row. finals: names of the final outputs, which are shown even if no pair compared them."""
    from qverify.renderers.columns import draw, natural_width

    rows = _list_rows(report.pairs, finals)
    if not rows:
        return ""
    outputs = [n for n, row in rows.items() if n in finals or any(r is not None and r.final for r in row)]
    if view.top is not None and not view.every:
        names, between = _sort_by_difference(rows)[: view.top], dict[int, str]()
        if not_shown := len(rows) - len(names):
            between[len(names)] = f"{count(not_shown, 'more tensor', 'differs', 'differ')} less or not at all"
    else:
        names = list(rows) if view.every else _choose(report, rows, outputs)
        between = _count_left_out(rows, names)
    columns = _make_columns(report.pairs, rows, names, _pair_columns(report.pairs, rows, names))
    if natural_width(columns) > view.columns:  # pairs share a column before other facts are left out
        columns = _make_columns(report.pairs, rows, names, _merged_pair_columns(report.pairs, rows, names))
    if view.detail == "verbose":
        columns.append(_make_times(report, names))
    lines, equal_text = draw(columns, view, between)
    marks = {_mark(r)[0] for n in names for r in rows[n]}
    legend = "   ".join(text for mark, text in LEGEND.items() if mark in marks)
    if any(r is not None and _counts_apart(r) for n in names for r in rows[n]):
        legend = "   ".join(part for part in (legend, COUNTS) if part)
    return "\n".join(
        [
            *(_colour(line, view) for line in lines),
            *([view.wrap(f"in every row: {equal_text}")] if equal_text else []),
            *([view.wrap(legend)] if legend else []),
        ]
    )


def _list_rows(pairs: list[Pair], finals: list[str]) -> Rows:
    """Returns, by tensor, the row of each pair (None if it has none). Tensors are in the order of the pair with the
    most rows."""
    by_name = [{r.name: r for r in pair.tensors} for pair in pairs]
    longest = sorted(by_name, key=len, reverse=True)
    names = dict.fromkeys([*(name for rows in longest for name in rows), *finals])
    return {name: [rows.get(name) for rows in by_name] for name in names}


def _choose(report: ReportDocument, rows: Rows, outputs: list[str]) -> list[str]:
    """Returns the outputs (of many, those that differ most), and the tensors around the first culprit."""
    names, chosen = list(rows), set(outputs)
    if len(outputs) > MAX_OUTPUTS:
        chosen = set(_sort_by_difference({n: rows[n] for n in outputs})[:MAX_OUTPUTS])
    culprit = _find_culprit(report, rows)
    if culprit is not None:
        at = names.index(culprit)
        chosen |= set(names[max(at - ROWS_AROUND_CULPRIT, 0) : at + ROWS_AROUND_CULPRIT + 1])
    blamed = {blame.node for blame in report.blamed}
    chosen |= {
        n for n, rows_of_tensor in rows.items() if any(r is not None and r.node in blamed for r in rows_of_tensor)
    }
    chosen = chosen or set(_sort_by_difference(rows)[:MAX_OUTPUTS])
    return [name for name in names if name in chosen]


def _find_culprit(report: ReportDocument, rows: Rows) -> str | None:
    """Returns the first tensor that does not pass, or fails when forced; None if there is none."""
    first = {p.first_divergence.tensor for p in report.pairs if p.verdict != "PASSED" and p.first_divergence}
    culprits = (
        n
        for n, rows_of_tensor in rows.items()
        if n in first or any(r is not None and _is_bad(r) for r in rows_of_tensor)
    )
    return next(culprits, None)


def _is_bad(row: TensorRow) -> bool:
    return row.verdict != "PASSED" or (row.forced is not None and row.forced.verdict == "FAILED")


def _sort_by_difference(rows: Rows) -> list[str]:
    """Returns the names, the tensor that differs most first."""

    def rank(name: str) -> tuple[float, ...]:
        compared = [r for r in rows[name] if r is not None]
        if not compared:  # not compared: worse than anything that passes
            return (RANK["INCONCLUSIVE"],)
        worst = min(RANK[r.verdict] for r in compared)
        return worst, -max(_read_number(r, "max_lsb") for r in compared), -max(_read_share(r) for r in compared)

    return sorted(rows, key=rank)


def _read_number(row: TensorRow, metric: str) -> float:
    value = row.metrics.get(metric)
    return float(value) if isinstance(value, int | float) and value == value else 0.0


def _read_share(row: TensorRow) -> float:
    return _read_number(row, "mismatched") / max(row.elements, 1)


def _count_left_out(rows: Rows, names: list[str]) -> dict[int, str]:
    """Returns a line for each sequence of tensors without a row, by the index in `names` of the row that it
    precedes."""
    states_by_index, index = dict[int, Counter[str]](), 0
    for name, rows_of_tensor in rows.items():
        if index < len(names) and name == names[index]:
            index += 1
        else:
            states_by_index.setdefault(index, Counter())[_sum_up(rows_of_tensor)] += 1
    return {index: _describe_left_out(states) for index, states in states_by_index.items()}


def _describe_left_out(states: Counter[str]) -> str:
    if len(states) == 1:
        return f"{count(states.total(), 'tensor')}, {'all ' if states.total() > 1 else ''}{next(iter(states))}"
    order = [*RANK, *(s for s in states if s not in RANK)]
    counts = ", ".join(f"{states[s]} {s}" for s in order if s in states)
    return f"{count(states.total(), 'tensor')}: {counts}"


def _sum_up(rows: Sequence[TensorRow | None]) -> str:
    compared = [r for r in rows if r is not None]
    worst = min((r.verdict for r in compared), key=RANK.__getitem__, default="not compared")
    if worst != "PASSED":
        return worst
    if not all(r.bit_equal for r in compared):
        return "within the gate"
    return "equal" if len(compared) == len(rows) else "equal where compared"


def _pair_columns(pairs: list[Pair], rows: Rows, names: list[str]) -> list[Column]:
    from qverify.renderers.columns import Column

    return [Column(name_pair(p), [_mark(rows[n][at]) for n in names]) for at, p in enumerate(pairs)]


def _merged_pair_columns(pairs: list[Pair], rows: Rows, names: list[str]) -> list[Column]:
    """Returns a column for each group of pairs whose marks are the same in every row, as `ref, sim ~ board`."""
    from qverify.renderers.columns import Column

    groups = dict[tuple[str, ...], list[Pair]]()
    for pair, column in zip(pairs, _pair_columns(pairs, rows, names), strict=True):
        groups.setdefault(tuple(column.texts), []).append(pair)
    return [Column(_name_group(group, len(pairs)), texts) for texts, group in groups.items()]


def _name_group(group: list[Pair], pairs: int) -> str:
    firsts = list(dict.fromkeys(SHORT.get(p.a, p.a) for p in group))
    seconds = list(dict.fromkeys(SHORT.get(p.b, p.b) for p in group))
    if len(group) == pairs and pairs > 1:
        return "all pairs"
    if len(firsts) == 1 or len(seconds) == 1:
        return f"{', '.join(firsts)} ~ {', '.join(seconds)}"
    return ", ".join(map(name_pair, group))


def _make_columns(pairs: list[Pair], rows: Rows, names: list[str], of_pairs: list[Column]) -> list[Column]:
    from qverify.renderers.columns import Column

    chosen = [rows[n] for n in names]
    compared = [[r for r in row if r is not None] for row in chosen]
    forced = [_describe_forced(row, pairs) for row in chosen]
    partly = [_is_partly_equal(row) for row in chosen]
    return [
        Column("tensor", names, name=True),
        Column("op", [row[0].op if row else "" for row in compared], rank=2),
        Column("dtype", [row[0].dtype if row else "" for row in compared], rank=6),
        Column("shape", ["x".join(map(str, row[0].shape)) if row else "" for row in compared], rank=5),
        *of_pairs,
        Column(
            "max LSB",
            lsbs := _unless(partly, [_largest_lsb(row) for row in compared]),
            ["LSB", *lsbs],
            right=True,
            rank=1,
        ),
        Column(
            "max |a-b|",
            distances := _unless(partly, [_largest(row, "max_abs") for row in compared]),
            ["|a-b|", *distances],
            True,
            rank=3,
        ),
        Column("cosine", _unless(partly, [_describe_cosine(row) for row in compared]), rank=4),
        Column("forced", forced, ["forced", *map(_shorten_forced, forced)]),
    ]


def node_seconds(report: ReportDocument) -> dict[str, float]:
    """Returns the seconds that each node took on the board, by name; {} if no board reports times, or several do."""
    reported = [side["node_seconds"] for side in report.sides if side.get("node_seconds")]
    return reported[0] if len(reported) == 1 else {}


def _make_times(report: ReportDocument, names: list[str]) -> Column:
    from qverify.renderers.columns import Column

    seconds = node_seconds(report)
    return Column("time", [describe_seconds(seconds[n]) if n in seconds else "" for n in names], right=True)


def _is_partly_equal(row: list[TensorRow | None]) -> bool:
    """Returns whether the pairs that compared the tensor found it equal, and another did not compare it, so that a number
    would be taken as that of the other."""
    compared = [r for r in row if r is not None]
    return 0 < len(compared) < len(row) and all(r.bit_equal for r in compared)


def _unless(hidden: list[bool], texts: list[str]) -> list[str]:
    """Returns the texts, with "-" for those that are hidden."""
    return ["-" if hide and text else text for hide, text in zip(hidden, texts, strict=True)]


def _largest(row: list[TensorRow], metric: str) -> str:
    numbers = [n for r in row if isinstance(n := r.metrics.get(metric), int | float)]
    return "" if not numbers else str(max(numbers)) if isinstance(max(numbers), int) else f"{max(numbers):.4g}"


def _largest_lsb(row: list[TensorRow]) -> str:
    """Returns the largest difference in LSB; "-" if a pair that differs is of real values, so that it has none."""
    unknown = any(not r.bit_equal and r.metrics.get("max_lsb") is None for r in row)
    largest = _largest(row, "max_lsb")
    return "-" if unknown and largest else largest


def _describe_cosine(row: list[TensorRow]) -> str:
    cosines = [c for r in row if isinstance(c := r.metrics.get("cosine"), float)]
    if not cosines:
        return ""
    if all(r.bit_equal for r in row):
        return "1"
    return text if (text := f"{min(cosines):.6f}") != "1.000000" else "almost 1"


def _mark(row: TensorRow | None) -> str:
    """Returns `=` for equal bytes, `~` for other bytes that pass, or else the verdict, and how many elements differ."""
    if row is None:
        return "-"
    if row.bit_equal and row.verdict == "PASSED":
        return "="
    differing = row.metrics.get("mismatched")
    mark = "~" if row.verdict == "PASSED" else row.verdict
    return f"{mark} {differing}/{row.elements}" if differing else mark


def _counts_apart(row: TensorRow) -> bool:
    """Returns whether a tensor that FAILED has other bits at more elements than it is FAILED for."""
    differing = row.metrics.get("mismatched")
    return row.verdict == "FAILED" and isinstance(differing, int) and 0 < (row.failing or 0) < differing


def _describe_forced(row: list[TensorRow | None], pairs: list[Pair]) -> str:
    """Returns the forced verdicts of one tensor in words: the first that FAILED, else those of the pairs that could not
    force it, else ok if every pair did that found other bytes, or "-" if one did not compare it."""
    compared = [(pair, r.forced) for pair, r in zip(pairs, row, strict=True) if r is not None]
    equal = [pair for pair, r in zip(pairs, row, strict=True) if r is not None and r.bit_equal]
    verdicts = [(pair, forced) for pair, forced in compared if forced is not None]
    for _, forced in verdicts:
        if forced.verdict == "FAILED":
            region = " (region)" if forced.region is not None else ""
            return f"FAILED {SHORT.get(forced.by, forced.by)} on {SHORT.get(forced.on, forced.on)}'s inputs{region}"
    doubtful = [pair for pair, forced in verdicts if forced.verdict != "PASSED"]
    lacking = [pair for pair, forced in compared if forced is None and pair not in equal] if verdicts else []
    open_ = [pair for pair, _ in compared if pair in (*doubtful, *lacking)]
    described = [f"{NOT_FORCED}{_name_some(open_, compared)}"] if open_ else []
    region = " (region)" if any(f.region is not None for _, f in verdicts) else ""
    if described or not verdicts:
        return "; ".join(described)
    return f"ok{region}" if len(compared) == len(row) else "-"


def _name_some(some: list[Pair], compared: Sequence[tuple[Pair, object]]) -> str:
    """Returns the names of these pairs, or "" if they are all that compared the tensor."""
    names = dict.fromkeys(map(name_pair, some))
    return "" if len(some) == len(compared) else f" ({', '.join(names)})"


def _shorten_forced(text: str) -> str:
    return NOT_FORCED if text.startswith(NOT_FORCED) else text.partition(" ")[0]


def _colour(line: str, view: TextView) -> str:
    kind = next((k for k in ("FAILED", "INCONCLUSIVE") if k in line), "")
    return view.paint(line, kind)
