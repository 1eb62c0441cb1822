"""Escapes program text so that Markdown shows it unchanged."""

from __future__ import annotations

import html
import re


def escaped(text: str) -> str:
    """Returns the text with every character escaped that Markdown or HTML would read as markup; option names become code."""
    parts = re.split(r"(`[^`]+`|(?<![\w-])--?[a-z][\w-]*(?:=[A-Z]+)?)", text)
    return "".join(_code(part) if number % 2 else _plain(part) for number, part in enumerate(parts))


def _code(part: str) -> str:
    return f"<code>{html.escape(part.strip('`'))}</code>"


def _plain(part: str) -> str:
    return re.sub(r"([\\*_\[\]|])", r"\\\1", html.escape(part, quote=False))
