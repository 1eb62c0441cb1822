"""Placement: where an engine ran one of its nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an engine ran one of its nodes.

    Attributes:
        node: the node's name, or the name of its first output.
        op: its operator, as the engine calls it.
        on: device, provider or delegate.
        kernel: the kernel and its precision, "" if the engine does not say.
        fallback: whether it ran elsewhere than the user asked.
        nodes: how many nodes this stands for, if the engine only counts them.
    """

    node: str
    op: str
    on: str
    kernel: str = ""
    fallback: bool = False
    nodes: int = 1
