"""Names of a vendor's dump to names of the other side: through the way the vendor spells them, one to one, or not at all."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Written = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """names: what the tensor may be called, most often one; #I where the dump does not name its output I. index: its
    position among the model's outputs, if known."""

    names: tuple[str, ...]
    index: int | None = None


@dataclass(slots=True)
class PairedNames:
    """to: first name of a tensor of a to that of b. doubtful: name on either side to why it pairs with nothing."""

    to: dict[str, str] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)


def common_spelling(first: Written | None, second: Written | None) -> Written:
    """One spelling in which the names of two sides can meet."""

    def spelled(name: str) -> str:
        name = first(name) if first is not None else name
        return second(name) if second is not None else name

    return spelled


def pair_names(a: list[NamedTensor], b: list[NamedTensor], spelled: Written, known: Iterable[str] = ()) -> PairedNames:
    """known: names of the model; two of them that are spelled alike cannot be told apart in a dump, either."""
    found, at = PairedNames(), _table(b, spelled)
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
                found, one.names[0], hits[one.names[0]], f"the model has {_list(crowd)}, all written alike in the dump"
            )
    claimed: dict[str, set[str]] = defaultdict(set)
    for name, others in hits.items():
        for other in others:
            claimed[other].add(name)
    for name, others in hits.items():
        rivals_here = {rival for other in others for rival in claimed[other]}
        if len(others) > 1 or len(rivals_here) > 1:
            why = f"{_list(sorted(rivals_here))} and {_list(sorted(others))} are written alike: which is which cannot be told"
            _doubt(found, name, others, why)
    found.to = {n: next(iter(o)) for n, o in hits.items() if o and n not in found.doubtful}
    _confirm(found, a, b)
    return found


def by_index(found: PairedNames, a: list[NamedTensor], outputs: tuple[str, ...], there: set[str]) -> None:
    """Tensors that carry their position among the model's outputs: the position says the name, the name has to agree as
    far as its letters and digits go."""
    for one in a:
        if one.index is None:
            continue
        name = one.names[0]
        target = outputs[one.index] if one.index < len(outputs) else ""
        found.to.pop(name, None)
        if not target or (name != f"#{one.index}" and _letters(name) != _letters(target)):
            said = f"the model calls it {target!r}" if target else f"the model has {len(outputs)} outputs"
            found.doubtful[name] = f"its file says output {one.index}; {said}"
        elif target in there:
            found.doubtful.pop(name, None)
            found.doubtful.pop(target, None)
            found.to[name] = target
    counts = Counter(found.to.values())
    for name, target in list(found.to.items()):
        if counts[target] > 1:
            _doubt(found, name, (target,), f"two of the dump's outputs are {target!r}")
            del found.to[name]


def _letters(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", name)


def _table(side: list[NamedTensor], spelled: Written) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for one in side:
        for name in one.names:
            found[spelled(name)].add(one.names[0])
    return found


def _doubt(found: PairedNames, name: str, others: Iterable[str], why: str) -> None:
    for each in (name, *others):
        found.doubtful.setdefault(each, why)


def _confirm(found: PairedNames, a: list[NamedTensor], b: list[NamedTensor]) -> None:
    """Where both sides carry positions, they have to be the same."""
    here, there = ({one.names[0]: one.index for one in side} for side in (a, b))
    for name, other in list(found.to.items()):
        one, two = here[name], there[other]
        if one is not None and two is not None and one != two:
            _doubt(found, name, (other,), f"it is output {one} on one side and output {two} on the other")
            del found.to[name]


def _list(names: list[str]) -> str:
    return ", ".join(repr(n) for n in names[:3]) + (" ..." if len(names) > 3 else "")
