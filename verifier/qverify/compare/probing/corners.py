"""The part of all tensors in which a board does not follow one form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qverify.arithmetic.forms import NAMES, REFERENCE, Form
from qverify.arithmetic.functions64 import log2_of
from qverify.compare.catalogue import MISTAKES
from qverify.compare.identify.fit import MIXING, RecordedUnit, solve, triples_of
from qverify.compare.identify.solve import MOST_FORMS, Triples
from qverify.compare.probing.parts import Mask, Places, fixed_parts, join_names, shown_parts

Part = tuple[tuple[str, ...], list[Mask]]  # its names, and its elements of each unit
MOST_WRONG = 0.6  # share of the elements that do not follow
MOST_SHARE = 0.75  # of the elements that are a part, unless it is whole nodes
LEAST_WRONG = 3  # elements
LEAST_INSIDE = 32  # elements that must confirm a form that is solved inside a part
EVIDENCE_BITS = 12.0  # that the elements do not lie in a part by chance, which is as large as it is
NODE_BITS = 2.5  # the same of whole nodes


@dataclass(frozen=True, slots=True)
class Corner:
    """A part of all tensors that does not follow. form: what gives every element outside it. part: its name, and those of
    others that hold the same elements. inside: a form that gives every element inside it, or ""."""

    form: str
    part: str
    inside: str

    def __str__(self) -> str:
        return f"{self.form} gives every element outside {self.part}" + (
            f", {self.inside} inside" if self.inside else ""
        )


def find_corner(members: Sequence[RecordedUnit], solved: bool) -> Corner | None:
    """Returns the smallest part of all tensors outside which one form gives every element of all units; None if there is
    none. solved: whether the form is one whose parameters are solved, or one of the catalogue."""
    places = [Places(m) for m in members]
    return _find_solved(places) if solved else _find_of_catalogue(places)


def _find_of_catalogue(every: Sequence[Places]) -> Corner | None:
    best: tuple[tuple[bool, bool, int], Corner, list[Mask]] | None = None  # its order, and the part
    fixed, tried = _fixed(every), list(list_wrong(every))
    most = max((_count_right(wrong) for _, wrong in tried), default=0)
    for form, wrong in tried:
        found = [
            (sum(int(np.count_nonzero(m)) for m in masks), names, masks)
            for names, masks in (*fixed, *((((name,), masks) for name, masks in shown_parts(every, wrong))))
            if not any((w & ~m).any() for w, m in zip(wrong, masks, strict=True)) and _is_shown(wrong, masks, most)
        ]
        if not found:
            continue
        size, _, masks = min(found, key=lambda f: f[0])
        inside = _form_at(every, masks)
        order = form in MISTAKES, not inside, size
        if best is None or order < best[0]:
            named = [name for other, names, _ in found if other == size for name in names]
            best = order, Corner(form, join_names(named), inside), masks
    if best is None:
        return None
    corner, masks = best[1:]
    return corner if corner.inside else replace(corner, inside=_solve_inside(every, masks))


def _solve_inside(every: Sequence[Places], masks: Sequence[Mask]) -> str:
    """Returns the simplest form that is solved from every second element of a part and gives the others, too; "" without
    one."""
    halves = [
        _triples_at([(p.member, m & _half(p, half)) for p, m in zip(every, masks, strict=True)]) for half in (0, 1)
    ]
    if halves[0] is None or halves[1] is None or sum(t.acc.size for t in halves[1]) < LEAST_INSIDE:
        return ""
    found = solve([t.fewest() for t in halves[0]])
    return next((str(f) for f in found if all(t.is_given_by(f) for t in halves[1])), "")


def _half(places: Places, number: int) -> Mask:
    """Returns a mask of one half of the elements, 0 or 1."""
    every = np.arange(places.member.recorded.size)
    return np.asarray((every * MIXING >> 7) % 2 == number).reshape(places.shape)


def _count_right(wrong: Sequence[Mask]) -> int:
    return sum(not w.any() for w in wrong)


def _is_shown(wrong: Sequence[Mask], masks: Sequence[Mask], most: int) -> bool:
    """Returns whether the elements that do not follow lie in a part by more than chance: of whole nodes, by how many nodes
    have such, if no other form gives more nodes; else by their number. most: nodes that some form gives."""
    total, size = sum(m.size for m in masks), sum(int(np.count_nonzero(m)) for m in masks)
    count = sum(int(np.count_nonzero(w)) for w in wrong)
    if all(m.all() or not m.any() for m in masks):
        hit, of = sum(bool(w.any()) for w in wrong), sum(bool(m.any()) for m in masks)
        known = _count_right(wrong) == most and hit * log2_of(len(masks) / of) >= NODE_BITS
        return count >= LEAST_WRONG and bool(known)
    return count >= LEAST_WRONG and size <= MOST_SHARE * total and bool(count * log2_of(total / size) >= EVIDENCE_BITS)


def _fixed(every: Sequence[Places]) -> list[Part]:
    """Returns the parts that all units have: the names of those that have the same elements, and their masks."""
    parts = dict[str, list[Mask]]()
    for one in every:
        for name, mask in fixed_parts(one):
            parts.setdefault(name, []).append(mask)
    found = dict[bytes, Part]()
    for name, masks in parts.items():
        if len(masks) == len(every):
            same = b"".join(np.packbits(m).tobytes() for m in masks)
            found[same] = (*(found[same][0] if same in found else ()), name), masks
    return [*found.values()]


def list_wrong(every: Sequence[Places]) -> Iterator[tuple[str, list[Mask]]]:
    """Yields the forms of the catalogue that most elements follow, and a mask of those of each unit that do not."""
    total = sum(p.member.recorded.size for p in every)
    masks = [p.member.made != p.member.recorded for p in every]
    if 0 < sum(int(np.count_nonzero(m)) for m in masks) <= MOST_WRONG * total:
        yield REFERENCE, masks
    triples = [p.triples for p in every]
    known = [t for t in triples if t is not None]
    if len(known) < len(every):
        return
    for name, form in NAMES.items():
        if name == REFERENCE:
            continue
        try:
            masks = [(t.compute(form) != t.out).reshape(p.shape) for t, p in zip(known, every, strict=True)]
        except (KeyError, ValueError):
            continue
        if 0 < sum(int(np.count_nonzero(m)) for m in masks) <= MOST_WRONG * total:
            yield name, masks


def _form_at(every: Sequence[Places], masks: Sequence[Mask]) -> str:
    """Returns a form of the catalogue that gives every element of the masks; "" without one."""
    pairs = list(zip((p.member for p in every), masks, strict=True))
    if all(np.array_equal(m.made[mask], m.recorded[mask]) for m, mask in pairs):
        return REFERENCE
    triples = _triples_at(pairs)
    if triples is None:
        return ""
    forms = [f for f in NAMES.values() if str(f) != REFERENCE]
    return next((str(f) for f in forms if all(t.is_given_by(f) for t in triples)), "")


def _triples_at(pairs: Iterable[tuple[RecordedUnit, Mask]]) -> list[Triples] | None:
    triples = list[Triples]()
    for m, mask in pairs:
        found = triples_of(m, np.flatnonzero(mask.reshape(-1)))
        if found is None:
            return None
        triples += [found] if found.acc.size else []
    return triples


def _find_solved(every: Sequence[Places]) -> Corner | None:
    """Returns the smallest of the parts that are known beforehand outside which a solved form gives every element."""
    sized = [(sum(int(np.count_nonzero(m)) for m in masks), names, masks) for names, masks in _fixed(every)]
    most = sum(p.member.recorded.size for p in every) // 2
    parts = [(names, masks) for size, names, masks in sorted(sized, key=lambda p: p[0]) if 0 < size <= most]
    found = _first_solved(every, parts)
    if found is None:
        return None
    names, masks = found
    return Corner(str(_solve_outside(every, masks)[0]), join_names(names), _form_at(every, masks))


def _first_solved(every: Sequence[Places], parts: Sequence[Part]) -> Part | None:
    """Returns the first of these parts outside which a solved form gives every element. What no form gives outside of all of
    them is given outside of none."""
    union = [np.logical_or.reduce(masks) for masks in zip(*(masks for _, masks in parts), strict=True)]
    if not union or not _solve_outside(every, union, 1):
        return None
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _first_solved(every, parts[:half]) or _first_solved(every, parts[half:])


def _solve_outside(every: Sequence[Places], masks: Sequence[Mask], most: int = MOST_FORMS) -> Sequence[Form]:
    outside = _triples_at([(p.member, ~mask) for p, mask in zip(every, masks, strict=True)])
    return [] if outside is None else solve([t.fewest() for t in outside], most)
