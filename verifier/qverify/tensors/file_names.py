"""Chooses file names for tensors, whose own names may contain any characters."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

MAX_STEM_LENGTH = 100  # characters; with an ending below 143 bytes, the smallest limit of usual file systems
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # names of devices on Windows


def file_stems(names: Iterable[str]) -> dict[str, str]:
    """Returns a file name without ending for each tensor name. File names are distinct even if upper and lower case are
    not distinguished, and consist of ASCII letters and digits, "-", "." and "_". A name that was shortened, is
    reserved, or is equal to another one ends in the first digits of its SHA-256."""
    stems: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9_.-]", "_", name).strip("._-")
        if not stem or len(stem) > MAX_STEM_LENGTH or _RESERVED.fullmatch(stem) or stem.lower() in taken:
            stem = _make_distinct(stem, name, taken)
        stems[name] = stem
        taken.add(stem.lower())
    return stems


def _make_distinct(stem: str, name: str, taken: set[str]) -> str:
    """Returns the shortened stem with as many digits of the name's SHA-256 as make it distinct."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    ends = (digest[:size] for size in range(8, len(digest) + 1))
    candidates = (f"{stem[: MAX_STEM_LENGTH - len(end) - 1].strip('._-') or 'tensor'}-{end}" for end in ends)
    return next(candidate for candidate in candidates if candidate.lower() not in taken)
