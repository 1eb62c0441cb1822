"""The files that a document shows."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path


def example_of(document: Path, name: str) -> str:
    """Returns the block of a document whose first line is `# NAME`."""
    found = re.search(rf"```toml\n(# {re.escape(name)}\b.*?)```", document.read_text(), re.DOTALL)
    assert found is not None, f"{document.name} shows no {name}"
    return textwrap.dedent(found[1])
