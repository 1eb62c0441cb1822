"""The help of commands with many options: examples first, then the options in groups, each under its title."""

from __future__ import annotations

import click

from qverify.options.commands import grouped


class GroupedCommand(click.Command):
    """A command whose help shows `examples` (command line, what it does) and its options by the groups of the table. page: the page of the
    documentation that explains them."""

    def __init__(self, *args: object, examples: tuple[tuple[str, str], ...] = (), page: str = "", **others: object):
        super().__init__(*args, **others)  # type: ignore[arg-type]
        self._examples, self._page = examples, page

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples and every group."""
        with formatter.section("Examples"):
            for line, text in self._examples:
                formatter.write(f"  {line}\n      {text}\n")
            formatter.write(f"  explained in {self._page} of a clone\n")
        by_word = {word: parameter for parameter in self.get_params(ctx) for word in parameter.opts}
        for title, words in grouped().items():
            words += ["--help"] if title == "Output" else []
            records = [by_word[word].get_help_record(ctx) for word in words if word in by_word]
            if rows := [record for record in records if record is not None]:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=28)
