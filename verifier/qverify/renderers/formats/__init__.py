"""The file formats of a report, one per file: NAME.py is the format NAME of `--report NAME=PATH`, with - for each _.
A page defines

SUFFIX                       suffix of its files, such as ".json"
write(report, path)          writes the file completely or not at all; "-" is stdout. Raises UsageError if it cannot
write_triage(triage, path)   the same for the results of `qverify triage`; absent if the format cannot represent them
write_difference(difference, path)  the same for `qverify report diff`; absent if the format cannot represent it
write_matrix(matrix, path)   the same for `qverify report matrix`; absent if the format cannot represent it
DRAWS                        True if the format shows drawings of tensors; absent otherwise

The file names are the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from qverify.errors import UsageError
from qverify.pages import load_page, page_names

if TYPE_CHECKING:
    from qverify.report.document import ReportDocument


class FormatPage(Protocol):
    """The interface of a format's module. The functions that a page may lack are not part of it."""

    SUFFIX: str

    def write(self, report: ReportDocument, path: str) -> None: ...


def names() -> list[str]:
    """Returns the names of all formats."""
    return [stem.replace("_", "-") for stem in page_names(__name__)]


def page(name: str) -> FormatPage:
    """Returns the format's module. Raises UsageError for an unknown format."""
    if name not in names():
        raise UsageError(f"report format: got {name!r}, wanted one of {', '.join(names())}")
    return cast(FormatPage, load_page(__name__, name.replace("-", "_"), ("SUFFIX", "write")))


def by_suffix(path: str) -> str:
    """Returns the name of the format with the suffix of this path. Raises UsageError if there is none."""
    matches = [name for name in names() if path.endswith(page(name).SUFFIX)]
    if not matches:
        endings = ", ".join(page(name).SUFFIX for name in names())
        raise UsageError(f"{path}: got no format, wanted a file that ends in {endings}, or one of {', '.join(names())}")
    return max(matches, key=lambda name: len(page(name).SUFFIX))
