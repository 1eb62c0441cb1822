"""The results of --check, and the shapes of a sweep of --shape, as the report has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

CheckName = Literal["batch", "order"]
CHECKS: tuple[CheckName, ...] = ("batch", "order")


@dataclass(slots=True)
class CheckDifference:
    """A frame, or an item of a batch, whose bytes on the board are not the same again. frame: number of the frame. item:
    number of the batch item, from 0; null for --check order. after: what ran on the board before the frame the second
    time, in words; "" for --check batch. tensor: the first tensor, in running order, that differs. node: the node that
    computes it. tensors: number of tensors that differ."""

    frame: int
    item: int | None
    after: str
    tensor: str
    node: str
    tensors: int


@dataclass(slots=True)
class CheckResult:
    """The result of one check of the board's own bytes. check: order (the same frames in another order give the same
    bytes) or batch (each item of a batch gives the bytes of its run alone). verdict: INCONCLUSIVE if nothing could be
    compared, or not everything. why: in words. runs: number of further runs of the board. tensors: number of tensors
    that were compared in each of them. differing: the frames or items that are not the same. board: its address."""

    check: CheckName
    verdict: Literal["PASSED", "FAILED", "INCONCLUSIVE"]
    why: str
    runs: int = 0
    tensors: int = 0
    differing: list[CheckDifference] = field(default_factory=list)
    board: str | None = None


@dataclass(slots=True)
class ShapeResult:
    """One shape of a sweep. shape: dims by input. frame: its number in `frames` and `pairs`. verdict: NOT RUN if the
    network could not be compiled or run with it. node: the blamed node, else the one whose tensor differs most; "" if
    none differs. why: the reason of the verdict. sha256: of the model.bin or model that the board ran; "" if none.
    bytes: size of it; 0 if none. board: address of the board, or null without one."""

    shape: dict[str, list[int]]
    frame: int
    verdict: Literal["PASSED", "FAILED", "INCONCLUSIVE", "NOT RUN"]
    node: str = ""
    why: str = ""
    sha256: str = ""
    bytes: int = 0
    board: str | None = None

    @property
    def text(self) -> str:
        """The shape as --shape takes it, such as x=1x3x224x224."""
        return " ".join(f"{name}={'x'.join(map(str, dims))}" for name, dims in self.shape.items())
