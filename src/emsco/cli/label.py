"""`emsco label`: label a batch as an expensive model would, by files between which it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from emsco._utils.progress import hush, tell
from emsco.cli._errors import note
from emsco.cli._model_file import model_file
from emsco.cli._options import options
from emsco.cli._print import print_text
from emsco.exceptions import ArtifactError, BatchError, EmscoError, Keyword, Message

if TYPE_CHECKING:
    from emsco.cli._label_job import LabelJob
    from emsco.cli._label_settings import LabelSettings

_AGREEMENT = 0.99
_BY_CLASS = "LABEL=SHARE"
_NEW = typer.Option(
    metavar="LABEL",
    help="A label that neither the cheap model nor earlier answers have; can be repeated.",
)


@options(
    rows=typer.Argument(help="The rows to label: CSV or Parquet.", show_default=False),
    model="The cheap model: a cascade, or the folder of a search.",
    answers=typer.Option(
        metavar="COLUMN", help="The column of somebody's own cheap answers, instead of --model."
    ),
    trust=typer.Option(
        metavar="COLUMN",
        help="With --answers: the column that says how much each is trusted; the larger, the more.",
    ),
    costs="A file of prices, instead of --model and --answers: a first part of the rows is sent, "
    "and a cascade is searched on its answers.",
    text=typer.Option(
        metavar="COLUMN",
        help="A column of long text, instead of --costs: the cascade decides by its words; can be "
        "repeated.",
    ),
    labels=typer.Option(
        metavar="LABEL,LABEL", help="All labels, with commas between: --new-label for each."
    ),
    agreement=typer.Option(
        help="The least share of labels that are as the final model's.",
        show_default="0.99, or none with a promise by class",
    ),
    confidence="One minus the probability that any promise is broken.",
    max_missed=typer.Option(
        metavar=_BY_CLASS,
        help="Of the rows that the final model calls this, the largest share labelled otherwise; "
        "can be repeated.",
    ),
    min_precision=typer.Option(
        metavar=_BY_CLASS,
        help="Of the rows labelled this, the least share that the final model calls so; can be "
        "repeated.",
    ),
    key=typer.Option(
        metavar="COLUMN",
        help="The column that identifies a row. Without it, rows are numbered from 0.",
    ),
    known=typer.Option(
        metavar="COLUMN", help="The column of final answers known already; empty where unknown."
    ),
    log="Rows with the final model's answers, as free checks. They must be like the batch, as if "
    "both were drawn together, and used for nothing else.",
    label="The column of the final model's answers, in --log and in files of answers.",
    final=typer.Option(
        metavar="FILE|module:function",
        help="The final model, a .skops or .onnx file or a function of rows, to be called at once.",
    ),
    chat="The final model, a file with the settings of a chat model, to be called at once.",
    deferred=typer.Option(
        help="With --chat: write batch files for its provider, instead of asking at once."
    ),
    new_label=_NEW,
    price=typer.Option(min=0.0, help="The price of a row sent to the final model."),
    questions=typer.Option(
        min=1, help="How many questions will be asked about these rows, which share the confidence."
    ),
    concurrency=typer.Option(min=1, help="With --final: the most calls at the same time."),
    rows_per_call=typer.Option(
        min=1, help="With --final: the rows in a call.", show_default="1 for a function"
    ),
    trust_type="A type to trust when loading a model; can be repeated.",
    out="The folder of the job.",
)
def begin(
    rows: Path,
    model: Path | None = None,
    answers: str | None = None,
    trust: str | None = None,
    costs: Path | None = None,
    text: list[str] | None = None,
    labels: str | None = None,
    agreement: float | None = None,
    confidence: float = 0.99,
    max_missed: list[str] | None = None,
    min_precision: list[str] | None = None,
    key: str | None = None,
    known: str | None = None,
    log: Path | None = None,
    label: str = "label",
    final: str | None = None,
    chat: Path | None = None,
    deferred: bool = False,
    new_label: list[str] | None = None,
    price: float | None = None,
    questions: int = 1,
    concurrency: int = 8,
    rows_per_call: int | None = None,
    trust_type: list[str] | None = None,
    out: Path = Path("job"),
    quiet: bool = False,
    newlines_in_cells: bool = False,
) -> None:
    """Begin to label rows as an expensive model or a person would, sending it few of them.

    Writes ask-1.csv to the folder of the job: rows in random order. Put its answers into
    answers-1.csv, with the same first column and the answer in the column `label`, or into a file
    for each reviewer, such as answers-1.anna.csv, and go on with `emsco label next`. With --final
    or --chat, the model is called, and the labels are written at once. An interrupted command is
    repeated.
    """
    from emsco.cli._label_settings import LabelSettings

    if quiet:
        hush()
    if agreement is None and not max_missed and not min_precision:
        agreement = _AGREEMENT
    settings = LabelSettings(
        rows, None if model is None else model_file(model), answers, trust, costs, agreement,
        confidence, max_missed or None, min_precision or None, key, known, log, label, final, chat,
        deferred, price, questions, trust_type or None, newlines_in_cells, text or None,
    )  # fmt: skip
    new = [*(new_label or []), *_divided(labels), *_labels_of(settings)]
    _check(settings, new)
    now = settings.to_json(out)
    with _trusting_types():
        _begin(out, settings, now, new, concurrency, rows_per_call)


def _labels_of(settings: LabelSettings) -> list[str]:
    """Return the labels that a chat model may answer, which need not be declared."""
    if settings.chat is None:
        return []
    from emsco.cli._label_chat import chat_labels

    return chat_labels(settings.chat)


def _divided(labels: str | None) -> list[str]:
    """Return the labels that commas divide."""
    found = [] if labels is None else [label.strip() for label in labels.split(",")]
    if "" in found:
        raise BatchError(f"--labels {labels!r} has a label without a name; divide them by commas.")
    return found


def _check(settings: LabelSettings, new: Sequence[str]) -> None:
    """Refuse options that contradict one another."""
    ways = {"--model": settings.model, "--answers": settings.answers, "--costs": settings.costs,
            "--text": settings.text}  # fmt: skip
    chosen = [name for name, value in ways.items() if value is not None]
    if len(chosen) != 1:
        raise BatchError(
            "Give one of --model, a cheap model, --answers, a column of cheap answers, or, if "
            "there is neither, --costs, a file of prices, or --text, a column of long text; got "
            f"{' and '.join(chosen) or 'none'}."
        )
    if (settings.answers is None) != (settings.trust is None):
        raise BatchError("--answers needs --trust, the column that says how sure each is.")
    is_cold = settings.costs is not None or settings.text is not None
    if is_cold and settings.log is not None:
        raise BatchError("--log needs --model or --answers: otherwise its rows would fit a model.")
    if settings.chat is not None and settings.final is not None:
        raise BatchError("Give one of --final and --chat: there is one final model.")
    if settings.deferred and settings.chat is None:
        raise BatchError("--deferred needs --chat, the file of a chat model.")
    if is_cold and len(set(new)) < 2:
        raise BatchError(
            "Without --model and --answers, no label is known: give all of them by --labels, at "
            "least two."
        )
    if not settings.rows.is_file():
        raise ArtifactError(f"There is no file {settings.rows}.")


def _begin(
    out: Path,
    settings: LabelSettings,
    now: str,
    new: Sequence[str],
    concurrency: int,
    rows_per_call: int | None,
) -> None:
    from emsco.batch.answers_store import JobStore
    from emsco.batch.label import send_all
    from emsco.cli._label_job import Begun, LabelJob, open_store
    from emsco.cli._label_rows import read_label_rows
    from emsco.cli._label_settings import refuse_other

    rows = None
    if not JobStore.is_there(out):  # no folder is made for what cannot be read
        rows = read_label_rows(settings, new)
    with open_store(out) as store:
        begun = Begun.of(store)
        if begun is not None:
            refuse_other(out, begun.settings, now)
            new = [*begun.new, *new]
        job = LabelJob(out, store, settings, rows or read_label_rows(settings, new))
        calls = None
        if settings.final is not None:
            from emsco.cli._label_final import calls_of

            tell(f"load {settings.final}")
            calls = calls_of(settings, job.rows, concurrency, rows_per_call)
        elif settings.chat is not None and not settings.deferred:
            from emsco.cli._label_chat import chat_calls

            calls = chat_calls(settings.chat, job.rows, settings.price)
        job.open(new)
        job.declare(new)
        if calls is not None:
            send_all(job.task, calls, store)
        _proceed(job)
        if settings.chat is not None:
            from emsco.cli._label_chat import spending_note

            spending = spending_note(settings.chat)
            if spending is not None:
                note(spending)


@options(
    job=typer.Argument(help="The folder of the job.", show_default=False),
    new_label=_NEW,
    failed=typer.Option(
        metavar="WORD", help="The word that stands for no answer: such rows get no label."
    ),
)
def next_(
    job: Path,
    new_label: list[str] | None = None,
    failed: str | None = None,
    quiet: bool = False,
    newlines_in_cells: bool = False,
) -> None:
    """Read the answers to the last file of rows, and write the next one, or the labels.

    In the end, the job has labels.csv, with where each label is from, and evidence.json, with what
    is promised of them. A file of answers is accepted as a whole or refused by line; nothing of a
    refused one is recorded. Rows that reviewers answered differently are written to settle-1.csv
    first, and their answers read from settled-1.csv.
    """
    from emsco.batch.answers_store import JobStore
    from emsco.cli._label_job import Begun, LabelJob, open_store
    from emsco.cli._label_rows import read_label_rows
    from emsco.cli._label_settings import settings_of

    if quiet:
        hush()
    if not JobStore.is_there(job):
        raise ArtifactError(f"{job} is not the folder of a job; `emsco label begin` makes one.")
    with open_store(job) as store, _trusting_types():
        begun = Begun.of(store)
        if begun is None:
            raise BatchError(f"{job} was not begun; repeat `emsco label begin`.")
        settings = settings_of(job, begun.settings)
        if settings.final is not None or (settings.chat is not None and not settings.deferred):
            raise BatchError(f"{job} calls its final model; repeat `emsco label begin` to go on.")
        rows = read_label_rows(settings, begun.new)
        rows.words.declare(new_label or [])
        found = LabelJob(job, store, settings, rows)
        found.open([])
        if settings.deferred:
            from emsco.cli._label_deferred import DeferredRounds

            DeferredRounds.of(found).take()
            _proceed(found)
            return
        waiting = found.waiting()
        if waiting is not None:
            if failed is not None and found.rows.words.unknown(failed) is None:
                raise BatchError(f"--failed {failed!r} is a label; choose another word.")
            found.take(waiting, failed, new_label or [], newlines_in_cells=newlines_in_cells)
        _proceed(found)


@contextmanager
def _trusting_types() -> Iterator[None]:
    """Name the option for types in messages: here, --trust is a column."""
    try:
        yield
    except EmscoError as error:
        parts = getattr(error.message, "parts", ())
        if error.parameter == "trusted":
            error.message = Message(*map(_renamed, parts))
        raise


def _renamed(part: Any) -> Any:
    is_types = isinstance(part, Keyword) and part.name == "trusted"
    return Keyword("trust_type", part.value) if is_types else part


def _proceed(job: LabelJob) -> None:
    """Write the rows that are due, or the labels."""
    from emsco.cli._label_job import EVIDENCE, LABELS

    if job.settings.deferred:
        from emsco.cli._label_deferred import DeferredRounds

        sent = DeferredRounds.of(job).ask()
        if sent is not None:
            note(sent)
            return
    waiting = job.waiting()
    is_written = waiting is not None and waiting.ask.exists()
    found = job.ask()
    if found is None:
        print_text(str(job.finish()))
        note(f"Written: {job.folder / LABELS} and {job.folder / EVIDENCE}.")
        return
    files, due = found
    price = None if files.is_settling else job.settings.price
    cost = "" if price is None else f" for {len(due.rows) * price:,.6g}"
    note(
        f"{'Waiting' if is_written else 'Written'}: {files.ask}, with {len(due.rows):,} of "
        f"{job.rows.batch.n_rows:,} rows to be answered{cost} ({due.name}). Put the answers into "
        f"{files.answers}, with the columns {job.rows.key} and {job.settings.label}, and run "
        f"`emsco label next {job.folder}`."
    )
