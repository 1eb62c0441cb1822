"""Finds the first divergence in the graph, and the side to blame: the one that disagrees with the others. Blame is
derived from forced verdicts only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from qverify.compare.regions import describe_region
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Blame, FirstDivergence, Forced
from qverify.report.facts import FusedRegion
from qverify.report.side_names import named

Matrix = Mapping[tuple[str, str], Mapping[str, Forced]]  # (side a, side b) to output name to forced verdict
DISTRUST = (
    "onnxruntime on this host computes this kind of node differently from known values (canary; see qverify doctor)"
)
SLIGHT = 2  # LSB between roundings in one and in several steps, of 8 bits
RS, RB, SB = ("reference", "simulator"), ("reference", "board"), ("simulator", "board")


def find_first_divergence(
    units: list[Unit], same: Callable[[str], bool | None], side: str = "board"
) -> FirstDivergence | None:
    """Returns the first unit or region, in running order, of which an output differs although all its inputs are known
    to be equal; further ones are listed in `also`. Returns None if there is none. same: a function that returns whether
    both sides have the same bytes of a tensor, or None if this is not known. side: the side that gives regions."""
    diverging = [
        (unit, next(o for o in unit.outputs if same(o) is False))
        for unit in units
        if any(same(o) is False for o in unit.outputs) and all(same(n) for n in unit.inputs)
    ]
    if not diverging:
        return None
    unit, tensor = diverging[0]
    others = [u.name for u, _ in diverging[1:]]
    return FirstDivergence(tensor, unit.name, unit.op, others, describe_region(unit, side))


def blame_sides(rs: bool | None, rb: bool | None, sb: bool | None) -> list[str]:
    """Returns the sides to blame at one node. Arguments: whether the pairs reference-simulator, reference-board and
    simulator-board pass when forced (True), fail (False), or are not known (None).

    - board: simulator (which computes what a correct board computes) and reference agree, or only pairs with the board
      fail.
    - compiler (its arithmetic included): simulator and board agree with each other but not with the reference.
    - simulator: reference and board agree with each other but not with the simulator.
    """
    if rs is not False and rb is not False and sb is not False:
        return []
    if rs is False and rb is False and sb is False:
        return ["compiler", "board"]  # all three differ from one another
    if sb is False:
        return ["simulator"] if rs is False and rb is True else ["compiler", "board"] if rs is False else ["board"]
    if rs is False:
        return ["compiler"]
    return ["compiler"] if sb is True else ["board"]  # only reference against board fails


def find_culprits(
    units: list[Unit],
    matrix: Matrix,
    distrusted: Collection[str] = (),
    board: str = "board",
    is_compiled: bool = True,
) -> list[Blame]:
    """Returns each blamed side once, with its first blamed node in running order and the others in `also`. If such a
    node of a side that is not qvrt differs by no more than SLIGHT, and another one by more, the latter comes first.

    distrusted: nodes that onnxruntime on this host is known to compute wrongly (according to the canary). If only the
    reference differs at such a node, the reference is blamed. board: the name of the side that the matrix calls the
    board. is_compiled: whether the network was compiled, so that the compiler may be wrong."""
    found, suspect = dict[str, list[tuple[Blame, bool]]](), frozenset(distrusted)
    for unit in units:
        states = {key: _passes(unit, verdicts) for key, verdicts in matrix.items()}
        sides = blame_sides(states.get(RS), states.get(RB), states.get(SB))
        if sides == ["simulator"] and _is_reference_wrong(unit, matrix.get(RS, {})):
            sides = ["reference", "board"]  # both have the same values, and only the simulator has the exact ones
        for side in sides:
            if unit.name in suspect and (side == "compiler" or SB not in states):
                why, side = f"{unit.op}: {DISTRUST}", "reference"
            elif (forced := _find_wrong_reference(unit, matrix, states)) is not None:
                why, side = f"{unit.op}: {forced.why}", "reference"
            else:
                why = _describe_blame(side, unit, matrix, states, board, is_compiled)
            who = board if side == "board" else side
            blame = Blame(who, unit.name, why, region=_find_region(side, unit, matrix, states))
            found.setdefault(who, []).append((blame, _is_slight(unit, matrix, states)))
    return [_combine(blames) for blames in found.values()]


def _list_failing(unit: Unit, matrix: Matrix, states: Mapping[tuple[str, str], bool | None]) -> list[Forced]:
    """Returns the verdicts by which a unit fails, in all pairs. states: whether it passes, by pair."""
    return [
        matrix[key][o]
        for key, passes in states.items()
        if passes is False
        for o in unit.outputs
        if o in matrix[key] and matrix[key][o].verdict == "FAILED"
    ]


def _is_slight(unit: Unit, matrix: Matrix, states: Mapping[tuple[str, str], bool | None]) -> bool:
    """Returns whether the unit of a side that rounds in its own way fails by no more than a rounding in several steps
    may differ."""
    failing = _list_failing(unit, matrix, states)
    return all(f.at_fault != "" and f.max_lsb is not None and f.max_lsb <= SLIGHT for f in failing)


def _combine(blames: list[tuple[Blame, bool]]) -> Blame:
    """Returns the blames of one side, in running order, as one: at the first node that does not differ slightly, or the
    first one if all do. blames: each with whether it differs slightly."""
    gross = [blame for blame, slight in blames if not slight]
    first = gross[0] if gross else blames[0][0]
    first.also = [blame.node for blame, _ in blames if blame is not first]
    slight = [blame for blame, _ in blames if blame not in gross]
    if gross and slight and blames[0][0] is not first:
        nodes = count(len(slight), "other node", "differs", "differ")
        first.why += f"; {nodes} by at most {SLIGHT} LSB, first {slight[0].node}"
    return first


def _find_wrong_reference(unit: Unit, matrix: Matrix, states: Mapping[tuple[str, str], bool | None]) -> Forced | None:
    """Returns a failing forced verdict if in all of them the reference alone is not what the exact value allows, else
    None."""
    failing = _list_failing(unit, matrix, states)
    return failing[0] if failing and all(f.at_fault == "reference" for f in failing) else None


def _is_reference_wrong(unit: Unit, verdicts: Mapping[str, Forced]) -> bool:
    """Returns whether the unit fails in the reference's pair with the simulator because of the reference alone."""
    failing = [verdicts[o] for o in unit.outputs if o in verdicts and verdicts[o].verdict == "FAILED"]
    return bool(failing) and all(f.at_fault == "reference" for f in failing)


def _passes(unit: Unit, verdicts: Mapping[str, Forced]) -> bool | None:
    """Returns whether every output of the unit passes when forced, or None if this is not known of all of them."""
    states = [verdicts[o].verdict for o in unit.outputs if o in verdicts]
    if "FAILED" in states:
        return False
    return True if states and all(v == "PASSED" for v in states) else None


def _find_region(
    side: str, unit: Unit, matrix: Matrix, states: Mapping[tuple[str, str], bool | None]
) -> FusedRegion | None:
    """Returns the region of the first failing verdict by which a side is blamed, or None if it is a single node's."""
    return _find_failing(side, unit, matrix, states)[1].region


def _find_failing(
    side: str, unit: Unit, matrix: Matrix, states: Mapping[tuple[str, str], bool | None]
) -> tuple[tuple[str, str], Forced]:
    """Returns the first pair that fails at this unit, and the failing verdict."""
    key = next(k for k in (SB, RB, RS) if states.get(k) is False and (side != "compiler" or k != SB))
    return key, next(matrix[key][o] for o in unit.outputs if o in matrix[key] and matrix[key][o].verdict == "FAILED")


def _describe_blame(
    side: str,
    unit: Unit,
    matrix: Matrix,
    states: Mapping[tuple[str, str], bool | None],
    board: str,
    is_compiled: bool,
) -> str:
    """Returns the reason for a blame as text: by how much the first failing pair differs, and which sides agree. board,
    is_compiled: as for find_culprits()."""
    key, forced = _find_failing(side, unit, matrix, states)
    by = (
        f"up to {forced.max_lsb} LSB"
        if forced.max_lsb is not None
        else f"up to {forced.max_abs:.3g}"
        if forced.max_abs is not None
        else forced.why
    )
    share = f"{forced.mismatched if forced.mismatched is not None else 'all'} of {count(forced.elements, 'element')}"
    names = {"board": board}
    given = named(names.get(key[1], key[1]))
    what = unit.op if forced.region is None else "recomputed as one"
    text = f"{what}: given {given}'s recorded inputs, the {key[0]} computes {share} differently, {by} (limit {forced.limit})"
    text = f"{text}; {forced.why}" if (forced.at_fault or forced.region) and forced.why else text
    agreeing = [f"{a} and {names.get(b, b)} agree here" for (a, b), passes in states.items() if passes]
    if side == "board" and states.get(SB) is None and is_compiled:
        agreeing.append("no simulator ran, so the compiler cannot be ruled out")
    return "; ".join([text, *agreeing])
