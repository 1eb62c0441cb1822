"""Shortens names in the middle, where they still differ from each other."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.renderers.text_view import cells, cut

DOTS = "..."
SHARES = (0.5, 0.3, 0.7, 0.15, 0.85, 0.0)  # of the beginning, in what is left of a name
ENDS_ALIKE = (0.8, *SHARES)  # where the beginnings tell more


def shorten_all(names: Sequence[str], room: int) -> list[str]:
    """Returns the names, those longer than `room` columns shortened in the middle: by the first of a few ways to share
    the room between beginning and end that keeps different names different; where none does, they are numbered. Ends
    that most of the names have in common get less room."""
    long = [name for name in names if cells(name) > room]
    if not long:
        return list(names)
    ends = {name[-max(room // 2, 1) :] for name in long}
    for share in ENDS_ALIKE if 1 < len(long) > 2 * len(ends) else SHARES:
        short = [shorten(name, room, share) for name in names]
        if len(set(short)) == len(set(names)):
            return short
    numbers = {name: f"#{at}" for at, name in enumerate(dict.fromkeys(names), 1)}
    return [shorten(name, room - len(numbers[name]), 0.5) + numbers[name] for name in names]


def shorten(name: str, room: int, share: float = 0.5) -> str:
    """Returns the name in at most `room` columns. share: of the room that is left for its beginning, 0 to 1."""
    if cells(name) <= room:
        return name
    if room <= len(DOTS):
        return cut(name, room)
    head = round((room - len(DOTS)) * share)
    tail = room - len(DOTS) - head
    begin = cut(name, head) if head else ""
    end = cut(name[::-1], tail)[::-1] if tail else ""
    return f"{begin}{DOTS}{end}"
