"""`emsco serve`: the live cascade as a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emsco.cli._key_file import SourcesFile
from emsco.cli._options import Trust


def serve(
    model: Annotated[
        Path, typer.Argument(help="A model, or the folder of a search; SIGHUP loads it anew.")
    ],
    sources: SourcesFile,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. One that other machines reach needs the environment "
            "variables EMSCO_TOKEN_DECIDE, EMSCO_TOKEN_FEEDBACK and EMSCO_TOKEN_METRICS."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.")] = 8000,
    workers: Annotated[
        int, typer.Option(help="The number of processes; more than one need --state.")
    ] = 1,
    state: Annotated[
        str | None,
        typer.Option(
            envvar="EMSCO_STATE",
            help="Where ids, budgets and failing sources are kept: redis://..., postgresql://..., "
            "or a file of SQLite. An address with a password belongs into the environment "
            "variable EMSCO_STATE.",
            show_default="emsco-state.sqlite in --folder",
        ),
    ] = None,
    allow_volatile_state: Annotated[
        bool,
        typer.Option(
            "--allow-volatile-state",
            help="Use a Redis that is known to lose data also for sources that are paid for.",
        ),
    ] = False,
    folder: Annotated[Path, typer.Option(help="The folder of the state's file.")] = Path("."),
    deadline: Annotated[
        float | None, typer.Option(help="The most seconds that a decision may take.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="The maximum cost of a single decision.")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="The folder to which decisions are appended; it needs EMSCO_LOG_KEY."),
    ] = None,
    log_values: Annotated[
        bool, typer.Option("--log-values", help="Write the values of features to the log, too.")
    ] = False,
    on_log_failure: Annotated[
        str, typer.Option(help="What happens to decisions that cannot be logged: drop or reject.")
    ] = "drop",
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow",
            help="Let the final model in the file answer, and only record what the cascade before "
            "it would have decided and saved; it needs --log and --log-values.",
        ),
    ] = False,
    canary: Annotated[
        Path | None,
        typer.Option(
            help="Another model, which decides a share of the keys until one of its promises no "
            "longer holds; SIGHUP loads it anew.",
            show_default="none",
        ),
    ] = None,
    share: Annotated[float, typer.Option(help="The share of keys that the canary decides.")] = 0.05,
    allow_uncertified: Annotated[
        bool,
        typer.Option(
            "--allow-uncertified",
            help="Let a model without a certificate follow one with a certificate after SIGHUP, or "
            "be its canary.",
        ),
    ] = False,
    concurrency: Annotated[
        int, typer.Option(help="The most requests that a process decides at a time.")
    ] = 64,
    queue: Annotated[
        int, typer.Option(help="The most requests that wait in a process; more are told 429.")
    ] = 64,
    drain: Annotated[
        float, typer.Option(help="The seconds that requests have to finish after SIGTERM.")
    ] = 30.0,
    max_body: Annotated[int, typer.Option(help="The most bytes in a body.")] = 1_000_000,
    max_rows: Annotated[int, typer.Option(help="The most keys or labels in a request.")] = 1000,
    max_key: Annotated[int, typer.Option(help="The most characters in a key.")] = 256,
    body_timeout: Annotated[
        float, typer.Option(help="The seconds that a client has to send a body.")
    ] = 10.0,
    idle_timeout: Annotated[
        float, typer.Option(help="The seconds after which an idle connection is closed.")
    ] = 30.0,
    deployment: Annotated[
        str,
        typer.Option(
            help="The name of the deployment, which has its own ids, labels and monitor in a "
            "state; all that answer for each other have the same. It is needed for "
            "--state redis://... and postgresql://...",
            show_default="emsco",
        ),
    ] = "",
    audit: Annotated[
        float, typer.Option(help="The share of rows whose labels reach the monitor.")
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

    SIGTERM lets running requests finish and ends with exit code 0. SIGHUP loads the model and the
    sources anew; files that are refused leave the model in use in place. Events are JSON lines on
    standard error.
    """
    from emsco.cli._model_file import model_file
    from emsco.cli._progress import hush
    from emsco.serve.process import run
    from emsco.serve.settings import Settings

    settings = Settings(
        model=model_file(model),
        sources=sources,
        host=host,
        port=port,
        workers=workers,
        state=state,
        allow_volatile_state=allow_volatile_state,
        folder=folder,
        deadline=deadline,
        max_cost=max_cost,
        log=log,
        log_values=log_values,
        on_log_failure=on_log_failure,
        shadow=shadow,
        canary=None if canary is None else model_file(canary),
        share=share,
        allow_uncertified=allow_uncertified,
        concurrency=concurrency,
        queue=queue,
        drain=drain,
        max_body=max_body,
        max_rows=max_rows,
        max_key=max_key,
        body_timeout=body_timeout,
        idle_timeout=idle_timeout,
        deployment=deployment,
        audit=audit,
        label_after=label_after * 86_400.0,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        trust=tuple(trust or ()),
    )
    hush()  # from here on, events tell what is done
    code = run(settings)
    if code:
        raise typer.Exit(code)
