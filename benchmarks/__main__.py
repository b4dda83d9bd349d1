"""The command line of the benchmarks: `python -m benchmarks NAME`, from the folder that holds this package."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.report import Report
from mullion.errors import MullionError, closest

BENCHMARKS = {
    "windows": "queries that differ in their windows: about ten minutes on two cores",
    "sharing": "queries that differ in predicates, or in both: most of an hour",
    "aggregates": "percentiles, distinct counts, row windows, panes: about ten minutes",
    "lookups": "row windows that are asked on demand, without Spark: three minutes",
    "statements": "thousands of queries added, synopses asked, without Spark: a minute",
    "due": "one window due a batch, a minute or an hour long, without Spark: ten minutes",
    "isolation": "windows that slide while they are read, and questions beside batches, without Spark: four minutes",
    "overload": "a burst of five times the capacity, and estimates from a part of the events: four minutes",
    "schedules": "when queries with SLIDE AT MOST are answered, and which together, without Spark: three minutes",
    "frequent": "how well short lists find frequent items, without Spark: two minutes",
    "operators": "joins, DISTINCT and negation over windows, and an index on disk",
    "promising": "the most promising part of joins under budgets, without Spark: three minutes",
    "flights": "varied queries over three million real flights, against DuckDB, polars and Spark",
    "promising_structures": "what leads to the partners of a tuple: zones, buckets, drift; without Spark: a minute",
}
"""Each is a module of this package with `run(console, *, json, plot, quick) -> Report`."""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def benchmark(name: str) -> Callable[..., Report]:
    if name not in BENCHMARKS:
        hint = closest(name, BENCHMARKS) or f"there is {', '.join(BENCHMARKS)}"
        raise MullionError(f"there is no benchmark '{name}'", hint=hint)
    run: Callable[..., Report] = import_module(f"benchmarks.{name}").run
    return run


@app.command()
def main(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"Which benchmark: {', '.join(BENCHMARKS)}.")],
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the measurements to FILE as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the measurements to FILE.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller run, to see that it works.")] = False,
    flink: Annotated[
        Path | None, typer.Option(metavar="PYTHON", help="A Python with apache-flink, for sharing to measure it too.")
    ] = None,
) -> None:
    """Measure, and print a table."""
    try:
        run = benchmark(name)
        if flink is not None and name != "sharing":
            raise MullionError(f"the benchmark '{name}' does not measure Flink", hint="leave --flink out")
        run(Console(), json=json, plot=plot, quick=quick, **({} if flink is None else {"flink": flink}))
    except MullionError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
