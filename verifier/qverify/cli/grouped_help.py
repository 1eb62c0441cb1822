"""The help of commands with many options: examples first, then the options in groups, each under its title."""

from __future__ import annotations

import click

GROUPS = {  # title of the group: its options, by their long names, in the order of the help
    "Models": ("model", "stages", "shape", "signature", "quantization", "arithmetic", "allow-other-model", "no-host"),
    "Dumps": (
        *("profile", "profile-a", "profile-b", "side", "side-a", "side-b", "dtype", "layer-info", "frame", "map"),
        "outputs-only",
    ),
    "Inputs": ("input-img", "seed", "description", "roi", "labels", "task-metric", "app-input", "app-output"),
    "Sequences": ("steps", "feed", "decode"),
    "Board": (
        *(
            "board",
            "no-board",
            "timeout",
            "wait",
            "user",
            "ssh-config",
            "ssh-backend",
            "accept-new-host-key",
            "repeat",
            "paranoid",
        ),
        *("pull", "spot-seed", "server", "token"),
    ),
    "Engines": (
        *("run-sim", "simulator", "reference", "runtime", "runner", "runner-option", "python", "provider", "build-cmd"),
        *("reference-engine", "reference-python", "reference-timeout", "reference-spread"),
    ),
    "Judging": (
        *("compare-digits", "dump-all-nodes-results", "rule", "gate", "criteria", "atol", "rtol", "min-cosine"),
        *("min-sqnr", "min-euclid", "max-rmse", "max-lsb", "nan-equal", "relax-board", "strict", "loss", "explain"),
        "reduce",
    ),
    "Output": (
        *("quiet", "verbose", "all", "top", "capture", "npz", "report", "html", "json", "junit", "csv", "markdown"),
        *("plots", "help"),
    ),
}


class GroupedCommand(click.Command):
    """A command whose help shows `examples` (command line, what it does) and its options by GROUPS. page: the page of the
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
        options = {parameter.name: parameter for parameter in self.get_params(ctx)}
        by_word = {word.lstrip("-"): parameter for parameter in options.values() for word in parameter.opts}
        for title, words in GROUPS.items():
            records = [by_word[word].get_help_record(ctx) for word in words if word in by_word]
            if rows := [record for record in records if record is not None]:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=28)
