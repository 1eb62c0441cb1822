"""File names for tensors, whose names may contain anything."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

MOST_STEM = 100  # characters; with an ending, below the 143 bytes that the strictest usual file system allows
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # devices on Windows


def file_stems(names: Iterable[str]) -> dict[str, str]:
    """Returns for each tensor name a file name without ending, distinct also where upper and lower case are one. Only
    letters and digits of ASCII, "-", "." and "_" remain. A name that was cut, that is reserved, or that is like another
    one gets the first digits of its SHA-256."""
    stems: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9_.-]", "_", name).strip("._-")
        if not stem or len(stem) > MOST_STEM or _RESERVED.fullmatch(stem) or stem.lower() in taken:
            stem = _distinct(stem, name, taken)
        stems[name] = stem
        taken.add(stem.lower())
    return stems


def _distinct(stem: str, name: str, taken: set[str]) -> str:
    """Returns the stem, shortened, with digits of the name's SHA-256: as many as make it distinct."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    ends = (digest[:size] for size in range(8, len(digest) + 1))
    tried = (f"{stem[: MOST_STEM - len(end) - 1].strip('._-') or 'tensor'}-{end}" for end in ends)
    return next(one for one in tried if one.lower() not in taken)
