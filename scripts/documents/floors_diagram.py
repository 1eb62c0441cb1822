"""The floors of the host tool and the trees beside it, drawn from the table that tests/test_layering.py holds the code to."""

from __future__ import annotations

from scripts.documents import svg

LEFT, WIDE, ROW, BOX = 76, 700, 50, 34
BESIDE = 470  # where the rooms end and the other trees begin


def draw(floors: tuple[tuple[str, ...], ...], speak_to_boards: tuple[str, ...]) -> str:
    """floors: rooms, the lowest floor first. speak_to_boards: rooms that may import agents/."""
    count = len(floors)
    parts = [svg.text(LEFT, 24, "verifier/qverify", "soft"), svg.text(BESIDE + 60, 24, "agents/qverify_agents", "soft")]
    height = 40 + count * ROW
    for row, number in enumerate(range(count, 0, -1)):
        parts += _floor(number, floors[number - 1], 36 + row * ROW, speak_to_boards)
    rows = [count - 1 - n for n, rooms in enumerate(floors) if set(rooms) & set(speak_to_boards)]
    parts += _other_trees([36 + row * ROW + BOX / 2 for row in rows], height)
    return svg.document(WIDE, height, "The floors of the host tool, the highest first, and the trees beside it", parts)


def _floor(number: int, rooms: tuple[str, ...], y: float, speak_to_boards: tuple[str, ...]) -> list[str]:
    width = (BESIDE - LEFT - 8 * (len(rooms) - 1)) / len(rooms)
    found = [svg.text(8, y + BOX / 2 + 4.5, f"floor {number}", "soft")]
    for place, room in enumerate(sorted(rooms, key=lambda r: r in speak_to_boards)):
        kind = "box marked" if room in speak_to_boards else "box"
        found.append(svg.box(LEFT + place * (width + 8), y, width, BOX, room, kind))
    return found


def _other_trees(speaking: list[float], height: float) -> list[str]:
    """agents/ beside the floors that speak to it, the board's runtime below it."""
    x, width, middle = BESIDE + 60, WIDE - BESIDE - 68, (BESIDE + 60 + WIDE - 8) / 2
    top, bottom = min(speaking) - BOX / 2, max(speaking) + BOX / 2
    parts = [svg.arrow(BESIDE + 4, y, x - 4, y) for y in speaking]
    parts.append(svg.box(x, top, width, bottom - top, "links and boards", "box"))
    runtime = bottom + 84
    parts.append(svg.arrow(middle, bottom + 4, middle, runtime - 4))
    parts.append(svg.text(middle - 8, (bottom + runtime) / 2 + 4, "frames over a link", "soft", "end"))
    parts.append(svg.box(x, runtime, width, 46, "qvrt, in C99", "box"))
    parts.append(svg.text(x, runtime + 66, "board_runtime/", "soft"))
    return parts
