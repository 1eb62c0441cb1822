"""The regions of a network that become one host island each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)
Tensor = TypeVar("Tensor", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Step(Generic[Name, Tensor]):
    """A node or an operator. reads, makes: tensors; constants may be left out. by_host: whether the host computes it."""

    name: Name
    reads: Sequence[Tensor]
    makes: Sequence[Tensor]
    by_host: bool


def regions_of(steps: Sequence[Step[Name, Tensor]]) -> list[list[Name]]:
    """Returns the names of the steps of each island, in running order. steps: all of the network, in running order.

    The round of a step is the number of times that the host must have taken over from the board before it can be computed.
    Connected steps of the host with the same round form one island, so that none depends on its own results through the
    board."""
    rounds, label = dict[Tensor, int](), dict[Name, Name]()
    maker: dict[Tensor, Name] = {}  # of what the host computes
    regions: dict[Name, list[Name]] = {}
    order = {step.name: k for k, step in enumerate(steps)}
    for step in steps:
        read = [n for n in step.reads if n in rounds]
        here = max([int(step.by_host), *(rounds[n] + (step.by_host and n not in maker) for n in read)])
        rounds |= dict.fromkeys(step.makes, here)
        if not step.by_host:
            continue
        maker |= dict.fromkeys(step.makes, step.name)
        neighbours = {label[maker[n]] for n in read if n in maker and rounds[n] == here}
        ordered = sorted(neighbours, key=order.__getitem__)
        regions[step.name] = [n for neighbour in ordered for n in regions.pop(neighbour)] + [step.name]
        label |= dict.fromkeys(regions[step.name], step.name)
    return [sorted(region, key=order.__getitem__) for region in regions.values()]
