"""Values that a side gives under another tensor's name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exchange:
    """A tensor under whose name a side gives another's values. both: whether it gives this one's under the other's name. text:
    a sentence with the evidence."""

    name: str
    other: str
    both: bool
    text: str

    def __str__(self) -> str:
        """Returns it in few words."""
        return (
            f"{self.name} and {self.other} are exchanged"
            if self.both
            else f"{self.name} has the values of {self.other}"
        )
