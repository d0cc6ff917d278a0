"""`emsco serve`: run a live cascade as an HTTP service."""

from __future__ import annotations

from pathlib import Path

import typer

from emsco.cli._model_file import model_file
from emsco.cli._options import options


@options(
    model="A model, or the folder of a search; SIGHUP reloads it.",
    host="The address to listen on. If other machines can reach it, the environment variables "
    "EMSCO_TOKEN_DECIDE, EMSCO_TOKEN_FEEDBACK and EMSCO_TOKEN_METRICS are required.",
    port="The port; 0 picks a free one.",
    workers="The number of processes; more than one requires --state.",
    state=typer.Option(
        envvar="EMSCO_STATE",
        help="Where ids, budgets and failing sources are stored: redis://..., postgresql://..., or "
        "an SQLite file. Pass a URL with a password in the environment variable EMSCO_STATE.",
        show_default="emsco-state.sqlite in --folder",
    ),
    allow_volatile_state="Allow paid sources even if the Redis is known to lose data.",
    folder="The folder of the state file.",
    deadline="The maximum time for a decision, in seconds.",
    log="The folder for the decision log; requires EMSCO_LOG_KEY.",
    log_values="Also log the values of features.",
    on_log_failure="What to do if a decision cannot be logged: drop or reject.",
    shadow="Let the final model answer, and only record what the cascade before it would "
    "have decided and saved; requires --log and --log-values.",
    canary=typer.Option(
        help="Another model, which decides a share of the keys until one of its promises no "
        "longer holds; SIGHUP reloads it.",
        show_default="none",
    ),
    share="The share of keys that the canary decides.",
    allow_uncertified="Let a model without a certificate replace a certified one after SIGHUP, "
    "or be its canary.",
    concurrency="The maximum number of requests a process decides at a time.",
    queue="The maximum number of queued requests per process; more get a 429.",
    drain="How long requests may run on after SIGTERM, in seconds.",
    max_body="The maximum size of a body, in bytes.",
    max_rows="The maximum number of keys or labels in a request.",
    max_key="The maximum length of a key, in characters.",
    body_timeout="How long a client may take to send a body, in seconds.",
    idle_timeout="The time after which an idle connection is closed, in seconds.",
    deployment=typer.Option(
        help="The name of the deployment. Services with the same name in the same state share "
        "ids, labels and the monitor, and can answer for each other. It is required with "
        "--state redis://... or postgresql://...",
        show_default="emsco",
    ),
    audit="The share of rows whose labels are passed to the monitor.",
    label_after="The days after which the label of a decision is final.",
    metrics_port=typer.Option(help="The port of the Prometheus metrics.", show_default="none"),
    metrics_host="The address of the metrics.",
    max_changed=typer.Option(
        help="How many answers of a period may differ from what the final model would have said; "
        "random checks keep that whatever changes. Requires --per and a model with a final model.",
        show_default="no checks",
    ),
    per=typer.Option(
        help="The period: a number of rows, or minute, hour or day (in UTC).",
        show_default="none",
    ),
    confidence="The probability with which a period keeps --max-changed.",
    check_seconds="How long the final model is expected to take, in seconds, until it is measured.",
    rows_per_second="How many rows per second are expected, until that is measured.",
)
def serve(
    model: Path,
    sources: Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    state: str | None = None,
    allow_volatile_state: bool = False,
    folder: Path = Path("."),
    deadline: float | None = None,
    max_cost: float | None = None,
    log: Path | None = None,
    log_values: bool = False,
    on_log_failure: str = "drop",
    shadow: bool = False,
    canary: Path | None = None,
    share: float = 0.05,
    allow_uncertified: bool = False,
    concurrency: int = 64,
    queue: int = 64,
    drain: float = 30.0,
    max_body: int = 1_000_000,
    max_rows: int = 1000,
    max_key: int = 256,
    body_timeout: float = 10.0,
    idle_timeout: float = 30.0,
    deployment: str = "",
    audit: float = 0.02,
    label_after: float = 30.0,
    metrics_port: int | None = None,
    metrics_host: str = "127.0.0.1",
    max_changed: int | None = None,
    per: str = "",
    confidence: float = 0.99,
    check_seconds: float = 1.0,
    rows_per_second: float = 10.0,
    trust: list[str] | None = None,
) -> None:
    """Serve decisions over HTTP, with live sources.

    Answers POST /v1/decide, POST /v1/feedback and GET /v1/model.

    SIGTERM lets running requests finish and exits with code 0. SIGHUP reloads the model and the
    sources; if the files are refused, the current ones stay in use. Events are JSON lines on
    standard error.
    """
    values = {**locals()}  # each is the setting of its name
    from emsco._utils.progress import hush
    from emsco.serve.process import run
    from emsco.serve.settings import Settings

    values["model"] = model_file(model)
    values["canary"] = None if canary is None else model_file(canary)
    values["label_after"] = label_after * 86_400.0
    values["trust"] = tuple(trust or ())
    settings = Settings(**values)
    hush()  # from here on, events replace the progress line
    code = run(settings)
    if code:
        raise typer.Exit(code)
