"""Pairs the names of a vendor's dump with those of the other side by the vendor's spelling, one to one or not at
all."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from qverify.plural import count

Written = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """A tensor and its possible names, usually one; #I where the dump does not name its output I. index: its position
    among the model's outputs, if known."""

    names: tuple[str, ...]
    index: int | None = None


@dataclass(slots=True)
class PairedNames:
    """The pairing. to: first name of a tensor of side a to that of side b. doubtful: for a name of either side, why it
    pairs with nothing."""

    to: dict[str, str] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)


def common_spelling(first: Written | None, second: Written | None) -> Written:
    """Returns a function that spells the names of both sides alike."""

    def spelled(name: str) -> str:
        name = first(name) if first is not None else name
        return second(name) if second is not None else name

    return spelled


def pair_names(a: list[NamedTensor], b: list[NamedTensor], spelled: Written, known: Iterable[str] = ()) -> PairedNames:
    """Pairs the tensors of a and b by name. known: names of the model; those spelled alike cannot be told apart in a
    dump."""
    pairs, at = PairedNames(), _table(b, spelled)
    rivals: dict[str, set[str]] = defaultdict(set)
    for name in known:
        rivals[spelled(name)].add(name)
    hits: dict[str, set[str]] = {}
    for one in a:
        keys = {spelled(name) for name in one.names}
        hits[one.names[0]] = {name for key in keys for name in at.get(key, ())}
        crowd = sorted({name for key in keys if len(rivals.get(key, ())) > 1 for name in rivals[key]})
        if crowd and hits[one.names[0]]:
            _doubt(
                pairs, one.names[0], hits[one.names[0]], f"the model has {_list(crowd)}, all written alike in the dump"
            )
    claimed: dict[str, set[str]] = defaultdict(set)
    for name, others in hits.items():
        for other in others:
            claimed[other].add(name)
    for name, others in hits.items():
        rivals_here = {rival for other in others for rival in claimed[other]}
        if len(others) > 1 or len(rivals_here) > 1:
            why = f"{_list(sorted(rivals_here))} and {_list(sorted(others))} are written alike and cannot be told apart"
            _doubt(pairs, name, others, why)
    pairs.to = {n: next(iter(o)) for n, o in hits.items() if o and n not in pairs.doubtful}
    _confirm(pairs, a, b)
    return pairs


def by_index(pairs: PairedNames, a: list[NamedTensor], outputs: tuple[str, ...], there: set[str]) -> None:
    """Pairs tensors that state their position among the model's outputs: the position gives the name, which must agree
    in its letters and digits."""
    for one in a:
        if one.index is None:
            continue
        name = one.names[0]
        target = outputs[one.index] if one.index < len(outputs) else ""
        pairs.to.pop(name, None)
        if not target or (f"#{one.index}" not in one.names and _letters(name) != _letters(target)):
            model = f"the model calls it {target!r}" if target else f"the model has {count(len(outputs), 'output')}"
            pairs.doubtful[name] = f"its file says output {one.index}; {model}"
        elif target in there:
            pairs.doubtful.pop(name, None)
            pairs.doubtful.pop(target, None)
            pairs.to[name] = target
    counts = Counter(pairs.to.values())
    for name, target in list(pairs.to.items()):
        if counts[target] > 1:
            _doubt(pairs, name, (target,), f"two of the dump's outputs are {target!r}")
            del pairs.to[name]


def _letters(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", text)


def _table(side: list[NamedTensor], spelled: Written) -> dict[str, set[str]]:
    table: dict[str, set[str]] = defaultdict(set)
    for one in side:
        for name in one.names:
            table[spelled(name)].add(one.names[0])
    return table


def _doubt(pairs: PairedNames, name: str, others: Iterable[str], why: str) -> None:
    for each in (name, *others):
        pairs.doubtful.setdefault(each, why)


def _confirm(pairs: PairedNames, a: list[NamedTensor], b: list[NamedTensor]) -> None:
    """Removes pairs whose positions are known on both sides and differ."""
    ours, theirs = ({one.names[0]: one.index for one in side} for side in (a, b))
    for name, other in list(pairs.to.items()):
        one, two = ours[name], theirs[other]
        if one is not None and two is not None and one != two:
            _doubt(pairs, name, (other,), f"it is output {one} on one side and output {two} on the other")
            del pairs.to[name]


def _list(names: list[str]) -> str:
    return ", ".join(repr(n) for n in names[:3]) + (" ..." if len(names) > 3 else "")
