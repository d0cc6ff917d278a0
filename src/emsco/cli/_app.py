"""The table of commands."""

from __future__ import annotations

import typer

from emsco.cli._errors import explained
from emsco.cli.certify import certify
from emsco.cli.costs import init, measure
from emsco.cli.decide import decide
from emsco.cli.example import example
from emsco.cli.label import begin, next_
from emsco.cli.live import compare
from emsco.cli.live import decide as decide_live
from emsco.cli.savings import savings
from emsco.cli.search import search
from emsco.cli.select import select
from emsco.cli.serve import serve
from emsco.cli.show import report, show
from emsco.cli.state import accept, spend
from emsco.cli.state import init as init_state

app = typer.Typer(
    name="emsco",
    help="Decide cheaply and honestly: buy features in stages, exit when confident, or reject.",
    no_args_is_help=True,
    rich_markup_mode=None,  # with rich, `emsco --help` would take three times as long
    pretty_exceptions_enable=False,
)
costs = typer.Typer(
    help="Prices of sources, in a TOML file.", no_args_is_help=True, rich_markup_mode=None
)
live = typer.Typer(help="Decisions with live sources.", no_args_is_help=True, rich_markup_mode=None)
label = typer.Typer(
    help="Labels of a batch as an expensive model would give them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
state = typer.Typer(
    help="The state that services share.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(costs, name="costs")
app.add_typer(label, name="label")
app.add_typer(live, name="live")
app.add_typer(state, name="state")

costs.command()(explained(init))
costs.command()(explained(measure))
label.command()(explained(begin))
label.command("next")(explained(next_))
live.command()(explained(decide_live))
live.command()(explained(compare))
state.command("init")(explained(init_state))
state.command()(explained(accept))
for command in (
    example,
    search,
    show,
    select,
    certify,
    decide,
    report,
    savings,
    serve,
    spend,
):
    app.command()(explained(command))


def _version(wanted: bool) -> None:
    if wanted:
        from emsco import __version__

        typer.echo(f"emsco {__version__}")
        raise typer.Exit


@app.callback()
def _emsco(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None: ...
