"""`emsco serve`: run a live cascade as an HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emsco.cli._key_file import SourcesFile
from emsco.cli._options import Trust


def serve(
    model: Annotated[
        Path, typer.Argument(help="A model, or the folder of a search; SIGHUP reloads it.")
    ],
    sources: SourcesFile,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. If other machines can reach it, the environment "
            "variables EMSCO_TOKEN_DECIDE, EMSCO_TOKEN_FEEDBACK and EMSCO_TOKEN_METRICS are "
            "required."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 picks a free one.")] = 8000,
    workers: Annotated[
        int, typer.Option(help="The number of processes; more than one requires --state.")
    ] = 1,
    state: Annotated[
        str | None,
        typer.Option(
            envvar="EMSCO_STATE",
            help="Where ids, budgets and failing sources are stored: redis://..., "
            "postgresql://..., or an SQLite file. Pass a URL with a password in the environment "
            "variable EMSCO_STATE.",
            show_default="emsco-state.sqlite in --folder",
        ),
    ] = None,
    allow_volatile_state: Annotated[
        bool,
        typer.Option(
            "--allow-volatile-state",
            help="Allow paid sources even if the Redis is known to lose data.",
        ),
    ] = False,
    folder: Annotated[Path, typer.Option(help="The folder of the state file.")] = Path("."),
    deadline: Annotated[
        float | None, typer.Option(help="The maximum time for a decision, in seconds.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="The maximum cost of a single decision.")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="The folder for the decision log; requires EMSCO_LOG_KEY."),
    ] = None,
    log_values: Annotated[
        bool, typer.Option("--log-values", help="Also log the values of features.")
    ] = False,
    on_log_failure: Annotated[
        str, typer.Option(help="What to do if a decision cannot be logged: drop or reject.")
    ] = "drop",
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow",
            help="Let the final model answer, and only record what the cascade before it would "
            "have decided and saved; requires --log and --log-values.",
        ),
    ] = False,
    canary: Annotated[
        Path | None,
        typer.Option(
            help="Another model, which decides a share of the keys until one of its promises no "
            "longer holds; SIGHUP reloads it.",
            show_default="none",
        ),
    ] = None,
    share: Annotated[float, typer.Option(help="The share of keys that the canary decides.")] = 0.05,
    allow_uncertified: Annotated[
        bool,
        typer.Option(
            "--allow-uncertified",
            help="Let a model without a certificate replace a certified one after SIGHUP, or be "
            "its canary.",
        ),
    ] = False,
    concurrency: Annotated[
        int, typer.Option(help="The maximum number of requests a process decides at a time.")
    ] = 64,
    queue: Annotated[
        int,
        typer.Option(help="The maximum number of queued requests per process; more get a 429."),
    ] = 64,
    drain: Annotated[
        float, typer.Option(help="How long requests may run on after SIGTERM, in seconds.")
    ] = 30.0,
    max_body: Annotated[
        int, typer.Option(help="The maximum size of a body, in bytes.")
    ] = 1_000_000,
    max_rows: Annotated[
        int, typer.Option(help="The maximum number of keys or labels in a request.")
    ] = 1000,
    max_key: Annotated[int, typer.Option(help="The maximum length of a key, in characters.")] = 256,
    body_timeout: Annotated[
        float, typer.Option(help="How long a client may take to send a body, in seconds.")
    ] = 10.0,
    idle_timeout: Annotated[
        float, typer.Option(help="The time after which an idle connection is closed, in seconds.")
    ] = 30.0,
    deployment: Annotated[
        str,
        typer.Option(
            help="The name of the deployment. Services with the same name in the same state share "
            "ids, labels and the monitor, and can answer for each other. It is required with "
            "--state redis://... or postgresql://...",
            show_default="emsco",
        ),
    ] = "",
    audit: Annotated[
        float, typer.Option(help="The share of rows whose labels are passed to the monitor.")
    ] = 0.02,
    label_after: Annotated[
        float, typer.Option(help="The days after which the label of a decision is final.")
    ] = 30.0,
    metrics_port: Annotated[
        int | None, typer.Option(help="The port of the Prometheus metrics.", show_default="none")
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="The address of the metrics.")] = "127.0.0.1",
    trust: Trust = None,
) -> None:
    """Serve decisions over HTTP, with live sources.

    Answers POST /v1/decide, POST /v1/feedback and GET /v1/model.

    SIGTERM lets running requests finish and exits with code 0. SIGHUP reloads the model and the
    sources; if the files are refused, the current ones stay in use. Events are JSON lines on
    standard error.
    """
    options = {**locals()}  # each is the setting of its name
    from emsco._utils.progress import hush
    from emsco.cli._model_file import model_file
    from emsco.serve.process import run
    from emsco.serve.settings import Settings

    options["model"] = model_file(model)
    options["canary"] = None if canary is None else model_file(canary)
    options["label_after"] = label_after * 86_400.0
    options["trust"] = tuple(trust or ())
    settings = Settings(**options)
    hush()  # from here on, events replace the progress line
    code = run(settings)
    if code:
        raise typer.Exit(code)
