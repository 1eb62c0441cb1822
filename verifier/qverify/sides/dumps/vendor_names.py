"""Pairs the names of a vendor's dump with those of the other side by the vendor's spelling. Pairs are one to one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from qverify.plural import count

Spelling = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """A tensor and its possible names, usually one; the name is #I if the dump does not name output I. index: its
    position among the model's outputs, if known."""

    names: tuple[str, ...]
    index: int | None = None


@dataclass(slots=True)
class PairedNames:
    """The pairs of two sides. b_of_a: first name of a tensor of side b by the first name of its partner on side a.
    doubtful: by name of either side, why it has no partner."""

    b_of_a: dict[str, str] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)


def common_spelling(first: Spelling | None, second: Spelling | None) -> Spelling:
    """Returns a function that gives the names of both sides the same spelling."""

    def spelled(name: str) -> str:
        name = first(name) if first is not None else name
        return second(name) if second is not None else name

    return spelled


def pair_names(a: list[NamedTensor], b: list[NamedTensor], spelled: Spelling, known: Iterable[str] = ()) -> PairedNames:
    """Pairs the tensors of a and b by name. known: names of the model; a dump does not distinguish those with equal
    spelling."""
    pairs, b_by_spelling = PairedNames(), _names_by_spelling(b, spelled)
    model_names: dict[str, set[str]] = defaultdict(set)
    for name in known:
        model_names[spelled(name)].add(name)
    partners: dict[str, set[str]] = {}
    for tensor in a:
        keys = {spelled(name) for name in tensor.names}
        partners[tensor.names[0]] = {name for key in keys for name in b_by_spelling.get(key, ())}
        equal_spellings = sorted(
            {name for key in keys if len(model_names.get(key, ())) > 1 for name in model_names[key]}
        )
        if equal_spellings and partners[tensor.names[0]]:
            _add_doubt(
                pairs,
                tensor.names[0],
                partners[tensor.names[0]],
                f"the model has {_list(equal_spellings)}, all written alike in the dump",
            )
    claimed: dict[str, set[str]] = defaultdict(set)
    for name, candidates in partners.items():
        for candidate in candidates:
            claimed[candidate].add(name)
    for name, candidates in partners.items():
        competitors = {competitor for candidate in candidates for competitor in claimed[candidate]}
        if len(candidates) > 1 or len(competitors) > 1:
            why = f"{_list(sorted(competitors))} and {_list(sorted(candidates))} are written alike and cannot be told apart"
            _add_doubt(pairs, name, candidates, why)
    pairs.b_of_a = {n: next(iter(o)) for n, o in partners.items() if o and n not in pairs.doubtful}
    _drop_other_positions(pairs, a, b)
    return pairs


def pair_by_index(pairs: PairedNames, a: list[NamedTensor], outputs: tuple[str, ...], available: set[str]) -> None:
    """Pairs the tensors of a that state their position among the model's outputs with the output at that position.
    Their names must agree in letters and digits. available: names of side b."""
    for tensor in a:
        if tensor.index is None:
            continue
        name = tensor.names[0]
        target = outputs[tensor.index] if tensor.index < len(outputs) else ""
        pairs.b_of_a.pop(name, None)
        if not target or (f"#{tensor.index}" not in tensor.names and _letters(name) != _letters(target)):
            model = f"the model calls it {target!r}" if target else f"the model has {count(len(outputs), 'output')}"
            pairs.doubtful[name] = f"its file says output {tensor.index}; {model}"
        elif target in available:
            pairs.doubtful.pop(name, None)
            pairs.doubtful.pop(target, None)
            pairs.b_of_a[name] = target
    counts = Counter(pairs.b_of_a.values())
    for name, target in list(pairs.b_of_a.items()):
        if counts[target] > 1:
            _add_doubt(pairs, name, (target,), f"two of the dump's outputs are {target!r}")
            del pairs.b_of_a[name]


def _letters(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", text)


def _names_by_spelling(side: list[NamedTensor], spelled: Spelling) -> dict[str, set[str]]:
    table: dict[str, set[str]] = defaultdict(set)
    for tensor in side:
        for name in tensor.names:
            table[spelled(name)].add(tensor.names[0])
    return table


def _add_doubt(pairs: PairedNames, name: str, others: Iterable[str], why: str) -> None:
    for each in (name, *others):
        pairs.doubtful.setdefault(each, why)


def _drop_other_positions(pairs: PairedNames, a: list[NamedTensor], b: list[NamedTensor]) -> None:
    """Removes pairs with positions that are known on both sides and differ."""
    indices_a, indices_b = ({tensor.names[0]: tensor.index for tensor in side} for side in (a, b))
    for name, other in list(pairs.b_of_a.items()):
        index_a, index_b = indices_a[name], indices_b[other]
        if index_a is not None and index_b is not None and index_a != index_b:
            _add_doubt(pairs, name, (other,), f"it is output {index_a} on one side and output {index_b} on the other")
            del pairs.b_of_a[name]


def _list(names: list[str]) -> str:
    return ", ".join(repr(n) for n in names[:3]) + (" ..." if len(names) > 3 else "")
