"""The file formats of a report, one per page: NAME.py is the format NAME of `--report NAME=PATH`, with - for each _. A page defines

SUFFIX                       the suffix of its files, such as ".json"
write(report, path)          writes the whole file or none of it; "-" is stdout. UsageError where it cannot be written
write_triage(triage, path)   the same for the results of `qverify triage`; left out where the format cannot express them
write_difference(found, path)  the same for those of `qverify report diff`; left out likewise
DRAWS                        True where the format draws tensors; left out where it does not

The file name is the registry."""

from __future__ import annotations

from typing import Protocol, cast

from qverify.errors import UsageError
from qverify.pages import load_page, page_names
from qverify.report.document import Report


class FormatPage(Protocol):
    SUFFIX: str

    def write(self, report: Report, path: str) -> None: ...


def names() -> list[str]:
    """Returns the names of all formats."""
    return [stem.replace("_", "-") for stem in page_names(__name__)]


def page(name: str) -> FormatPage:
    """Returns the format's page. UsageError for an unknown format."""
    if name not in names():
        raise UsageError(f"report format: got {name!r}, wanted one of {', '.join(names())}")
    return cast(FormatPage, load_page(__name__, name.replace("-", "_"), ("SUFFIX", "write")))


def by_suffix(path: str) -> str:
    """Returns the name of the format whose files end like this. UsageError where there is none."""
    found = [name for name in names() if path.endswith(page(name).SUFFIX)]
    if not found:
        endings = ", ".join(page(name).SUFFIX for name in names())
        raise UsageError(f"{path}: got no format, wanted a file that ends in {endings}, or one of {', '.join(names())}")
    return max(found, key=lambda name: len(page(name).SUFFIX))
