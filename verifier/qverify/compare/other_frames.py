"""Recognises tensors that a side gives for another frame: those of the frame before, or of the frames in another order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from qverify.plural import count
from qverify.report.facts import Finding

MOST_FRAMES = 4096  # of which digests are kept
MIN_ELEMENTS = 8  # of a tensor; the bytes of a smaller one may be equal by chance
MOST_SHOWN = 4
HOST = ("reference", "simulator")


@dataclass(slots=True)
class _Tensor:
    """The digests of one tensor, by frame: those of each side."""

    sides: dict[str, dict[int, str]] = field(default_factory=dict)


@dataclass(slots=True)
class FrameOrder:
    """The digests of all tensors over several frames."""

    _tensors: dict[str, _Tensor] = field(default_factory=dict)

    def add(self, frame: int, side: str, name: str, digest: str, elements: int) -> None:
        """Adds a tensor of a frame."""
        if elements >= MIN_ELEMENTS and frame < MOST_FRAMES:
            self._tensors.setdefault(name, _Tensor()).sides.setdefault(side, {})[frame] = digest

    def find(self, order: Iterable[str]) -> list[Finding]:
        """Returns a finding on the first tensor, in running order, of which the board gives another frame's bytes wherever it
        does not give its own, in two frames at least, with the number of the others; [] if there is none."""
        places = {name: at for at, name in enumerate(order)}
        names = sorted(self._tensors, key=lambda n: places.get(n, len(places)))
        found = [(n, taken) for n in names if (taken := self._find_taken(self._tensors[n]))]
        if not found:
            return []
        name, (host, sources) = found[0]
        more = [n for n, _ in found[1:]]
        text = f"{name}: in {count(len(sources), 'frame')} the board gives the bytes that the {host} has in another frame: "
        text += _describe_sources(sources)
        text += f" (and so in {count(len(more), 'more tensor')}: {', '.join(more[:MOST_SHOWN])})" if more else ""
        return [Finding("order", name, text, min(sources))]

    @staticmethod
    def _find_taken(tensor: _Tensor) -> tuple[str, dict[int, int]] | None:
        """Returns the host's side and, by frame, the frame whose bytes the board gives there; None unless that is so wherever
        it does not give its own."""
        board, host = tensor.sides.get("board", {}), next((s for s in HOST if s in tensor.sides), "")
        if not host or len(board) < 2:
            return None
        by_frame = tensor.sides[host]
        frames: dict[str, list[int]] = {}
        for frame, digest in by_frame.items():
            frames.setdefault(digest, []).append(frame)
        wrong = [f for f, digest in board.items() if f in by_frame and by_frame[f] != digest]
        if len(wrong) < 2 or any(board[f] not in frames for f in wrong):
            return None
        sources = {f: min(frames[board[f]], key=lambda other, own=f: abs(other - own)) for f in wrong}  # type: ignore[misc]
        return (host, sources) if len(set(sources.values())) > 1 else None  # else it is frozen


def _describe_sources(sources: dict[int, int]) -> str:
    """Returns whose bytes the frames have, in words."""
    steps = {frame - source for frame, source in sources.items()}
    if steps == {1}:
        return "that of the frame before, so that outputs are one frame late"
    if len(steps) == 1 and (step := steps.pop()):
        where = "before" if step > 0 else "after"
        return f"that of the {count(abs(step), 'frame')} {where}"
    if len({frame + source for frame, source in sources.items()}) == 1:
        each = ", ".join(
            f"frame {frame} has that of frame {source}" for frame, source in [*sources.items()][:MOST_SHOWN]
        )
        return f"the frames are in reverse order ({each})"
    shown = [f"frame {frame} has that of frame {source}" for frame, source in [*sources.items()][:MOST_SHOWN]]
    return ", ".join(shown) + (" ..." if len(sources) > MOST_SHOWN else "")
