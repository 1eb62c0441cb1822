"""MkDocs hooks: documents stored next to the code become pages, links between documents work on a code host and on the
site, and references are generated from the code."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scripts.documents import cli_reference, schema_reference  # noqa: E402 (MkDocs loads a hook from anywhere)

BESIDE_THE_CODE = (
    "ARCHITECTURE.md",
    "BENCHMARKS.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "DECISIONS.md",
    "agents/*.md",
    "board_runtime/*.md",
    "farm/*.md",
    "vectors/*.md",
    "verifier/*.md",
    "verifier/qverify/chips/*.md",
    "verifier/qverify/ops/*.md",
)
GENERATED = {  # marker in a page to the function that generates the text for it
    "<!-- generated: command line -->": cli_reference.page,
    "<!-- generated: report -->": lambda: schema_reference.page("report"),
    "<!-- generated: triage -->": lambda: schema_reference.page("triage"),
    "<!-- generated: diff -->": lambda: schema_reference.page("diff"),
    "<!-- generated: matrix -->": lambda: schema_reference.page("matrix"),
    "<!-- generated: outputs -->": lambda: schema_reference.page("outputs"),
}
LINK = re.compile(r"(!?\[[^\]\n]*\]\()([^)#\s]+)(#[^)\s]*)?\)")
IMAGE = re.compile(r'<img alt="([^"]*)" src="[^"]*?images/([\w-]+\.svg)" ?/?>')
LIST = re.compile(r"(?:- |\d+\. )")
CODE = re.compile(r"^(?: {4}|```)")


def on_config(config: Any) -> Any:
    """Returns the configuration with a section of the navigation for each pattern of pages in it."""
    config.nav = _with_pages(config.nav)
    return config


def _with_pages(entry: Any) -> Any:
    """Returns an entry of the navigation in which patterns are replaced by their pages, index.md first."""
    if isinstance(entry, list):
        return [_with_pages(part) for part in entry]
    if isinstance(entry, dict):
        return {title: _with_pages(part) for title, part in entry.items()}
    if "*" not in entry:
        return entry
    top = ROOT if entry in BESIDE_THE_CODE else ROOT / "docs"
    found = sorted(top.glob(entry), key=lambda path: (path.name != "index.md", path.name))
    titles = ["Overview" if path.name == "index.md" else path.stem for path in found]
    return [{t: p.relative_to(top).as_posix()} for t, p in zip(titles, found, strict=True)]


def on_files(files: Files, config: Any) -> Files:
    """Adds the documents stored next to the code to the site, under the same path."""
    for pattern in BESIDE_THE_CODE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Returns the page with its generated parts inserted and with links in the form that the site needs."""
    for marker, make in GENERATED.items():
        if marker in markdown:
            markdown = markdown.replace(marker, make())
    here = repository_path(page.file)
    pages = {repository_path(f): f.src_uri for f in files.documentation_pages()}
    named = {
        posixpath.basename(p): p for p in pages if p.startswith(("verifier/", "agents/", "board_runtime/", "farm/"))
    }
    named = {name: path for name, path in named.items() if name != "README.md"}
    lines, fenced = [], False
    for line in markdown.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and not CODE.match(line):
            line = LINK.sub(lambda m: _site_link(m, here, page.file.src_uri), line)
            if not line.startswith("#"):
                line = _link_names(line, page.file.src_uri, pages, named)
            if LIST.match(line) and lines and lines[-1].strip() and not LIST.match(lines[-1]) and lines[-1][:1] != " ":
                lines.append("")  # Python's Markdown needs a blank line before a list
        lines.append(line)
    return "\n".join(lines)


def on_page_content(html: str, *, page: Any, config: Any, files: Files) -> str:
    """Returns the page with diagrams inlined, so that their colours follow the page's scheme."""
    return IMAGE.sub(lambda m: f'<div class="qv-figure">{(ROOT / "docs/images" / m[2]).read_text()}</div>', html)


def repository_path(file: File) -> str:
    """Returns the path of the page's text from the repository root; "" for a generated page."""
    return Path(file.abs_src_path).relative_to(ROOT).as_posix() if file.abs_src_path else ""


def _site_link(match: re.Match[str], here: str, source: str) -> str:
    """Returns a link between repository files as a link between pages; other links unchanged."""
    start, target, anchor = match[1], match[2], match[3] or ""
    if ":" in target:
        return match[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
    return f"{start}{_relative(_source_of(path), source)}{anchor})"


def _source_of(path: str) -> str:
    """Returns MkDocs' name of a file of the repository."""
    return path.removeprefix("docs/")


def _relative(target: str, source: str) -> str:
    return os.path.relpath(target, posixpath.dirname(source) or ".").replace(os.sep, "/")


def _link_names(line: str, source: str, pages: dict[str, str], named: dict[str, str]) -> str:
    """Returns the line with named documents as links: `verifier/NUMERICS.md`, `NUMERICS.md`, NUMERICS.md."""

    def link(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        path = name if name in pages else named.get(name)
        if path is None or pages[path] == source:
            return match[0]
        return f"[{match[0]}]({_relative(pages[path], source)})"

    parts = re.split(r"(\[[^\]]*\]\([^)]*\))", line)  # existing links stay as they are
    pattern = r"`((?:\w+/)*[A-Z_]+\.md)`|(?<![\w/`.(])([A-Z_]+\.md)(?![\w`])"
    return "".join(part if number % 2 else re.sub(pattern, link, part) for number, part in enumerate(parts))
