"""Draws the floors of each tree from the tables that the layering tests check the code against."""

from __future__ import annotations

from scripts.documents import svg

Floors = tuple[tuple[str, ...], ...]
LEFT, ROW, BOX, GAP = 76, 50, 34, 8
ROOMS_RIGHT, WIDE = 470, 700  # right edges of the host tool's rooms, and of the picture


def draw_host_tool(floors: Floors, speak_to_boards: tuple[str, ...]) -> str:
    """Returns the host tool's floors as SVG. floors: rooms, lowest floor first. speak_to_boards: rooms that may import
    agents/."""
    count, height = len(floors), 40 + len(floors) * ROW
    parts = [
        svg.text(LEFT, 24, "verifier/qverify", "soft"),
        svg.text(ROOMS_RIGHT + 60, 24, "agents/qverify_agents", "soft"),
    ]
    parts += _stack(floors, ROOMS_RIGHT, speak_to_boards)
    rows = [count - 1 - n for n, rooms in enumerate(floors) if set(rooms) & set(speak_to_boards)]
    parts += _other_trees([36 + row * ROW + BOX / 2 for row in rows])
    return svg.document(WIDE, height, "The floors of the host tool, the highest first, and the trees beside it", parts)


def draw_tree(name: str, floors: Floors) -> str:
    """Returns the floors of one tree as SVG."""
    parts = [svg.text(LEFT, 24, name, "soft"), *_stack(floors, WIDE, ())]
    return svg.document(WIDE + GAP, 40 + len(floors) * ROW, f"The floors of {name}, the highest first", parts)


def _stack(floors: Floors, right: float, marked: tuple[str, ...]) -> list[str]:
    """Returns a row of boxes per floor between LEFT and right, the highest floor on top."""
    parts = []
    for row, rooms in enumerate(reversed(floors)):
        y, share = 36 + row * ROW, _shares(rooms, right - LEFT)
        parts.append(svg.text(8, y + BOX / 2 + 4.5, f"floor {len(floors) - row}", "soft"))
        x = float(LEFT)
        for room, width in zip(sorted(rooms, key=lambda r: r in marked), share, strict=True):
            parts.append(svg.box(x, y, width, BOX, room, "box marked" if room in marked else "box"))
            x += width + GAP
    return parts


def _shares(rooms: tuple[str, ...], width: float) -> list[float]:
    """Returns the widths of a row's boxes: equal if the names fit, otherwise in proportion to the names' lengths."""
    free = width - GAP * (len(rooms) - 1)
    lengths = [len(room) + 3 for room in rooms]
    if max(lengths) * 7 <= free / len(rooms):
        return [free / len(rooms)] * len(rooms)
    return [free * length / sum(lengths) for length in lengths]


def _other_trees(speaking: list[float]) -> list[str]:
    """Returns the shapes of agents/ next to the floors that use it, with the board's runtime below.

    speaking: heights of the floors that may speak to boards."""
    x, width, middle = ROOMS_RIGHT + 60, WIDE - ROOMS_RIGHT - 68, (ROOMS_RIGHT + 60 + WIDE - 8) / 2
    top, bottom = min(speaking) - BOX / 2, max(speaking) + BOX / 2
    parts = [svg.arrow(ROOMS_RIGHT + 4, y, x - 4, y) for y in speaking]
    parts.append(svg.box(x, top, width, bottom - top, "links and boards", "box"))
    runtime = bottom + 84
    parts.append(svg.arrow(middle, bottom + 4, middle, runtime - 4))
    parts.append(svg.text(middle - 8, (bottom + runtime) / 2 + 4, "frames over a link", "soft", "end"))
    parts.append(svg.box(x, runtime, width, 46, "qvrt, in C99", "box"))
    parts.append(svg.text(x, runtime + 66, "board_runtime/", "soft"))
    return parts
