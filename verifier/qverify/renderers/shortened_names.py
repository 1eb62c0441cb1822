"""Shortens names in the middle, so that they remain different."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.renderers.text_view import cells, cut

DOTS = "..."
HEAD_SHARES = (0.5, 0.3, 0.7, 0.15, 0.85, 0.0)  # shares of the room that the beginning of a name gets
HEAD_SHARES_OF_EQUAL_ENDS = (0.8, *HEAD_SHARES)  # if most names end in the same way


def shorten_all(names: Sequence[str], room: int) -> list[str]:
    """Returns the names; those longer than `room` columns are shortened in the middle. Several ways to divide the room
    between beginning and end are tried until different names remain different; if none succeeds, the names are
    numbered. Ends that most names share get less room."""
    long = [name for name in names if cells(name) > room]
    if not long:
        return list(names)
    ends = {name[-max(room // 2, 1) :] for name in long}
    for share in HEAD_SHARES_OF_EQUAL_ENDS if 1 < len(long) > 2 * len(ends) else HEAD_SHARES:
        short = [shorten(name, room, share) for name in names]
        if len(set(short)) == len(set(names)):
            return short
    numbers = {name: f"#{number}" for number, name in enumerate(dict.fromkeys(names), 1)}
    return [shorten(name, room - len(numbers[name]), 0.5) + numbers[name] for name in names]


def shorten(name: str, room: int, share: float = 0.5) -> str:
    """Returns the name in at most `room` columns. share: share of the room for its beginning, 0 to 1."""
    if cells(name) <= room:
        return name
    if room <= len(DOTS):
        return cut(name, room)
    head = round((room - len(DOTS)) * share)
    tail = room - len(DOTS) - head
    begin = cut(name, head) if head else ""
    end = cut(name[::-1], tail)[::-1] if tail else ""
    return f"{begin}{DOTS}{end}"
