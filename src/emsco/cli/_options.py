"""Arguments and options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emsco._utils.frozen_mapping import FrozenMapping
from emsco._utils.progress import tell
from emsco.exceptions import ClassesError, ColumnsError, nearest

if TYPE_CHECKING:
    from emsco.core.measure import Measure
    from emsco.ray import RayEngine

_SHARED: dict[str, Any] = {
    "address": typer.Option(
        metavar="auto|HOST:PORT",
        help="The Ray cluster to use. Without it, one is started on this machine for the command.",
    ),
    "allow": typer.Option(
        metavar="NAME=WHY",
        help="Allow what is refused by default ('known rows', 'repeated rows', 'near copies' or "
        "'unknown labels'), with the reason why it is right for these rows; can be repeated.",
    ),
    "as_json": typer.Option("--json", help="Print JSON, for programs."),
    "caution": typer.Option(
        metavar="auto|NUMBER",
        help="The margin added to bounds, in standard errors. auto: the optimism measured by "
        "repeating the search on parts of the rows, at least 1. 0: use the figures as counted.",
    ),
    "way": "What is tested for --agreement: candidates of the front, or, by the ladder, "
    "thresholds of one design from strict to loose. Without it, what is predicted to cost less.",
    "data": "Rows with their labels: CSV or Parquet.",
    "deployment": typer.Option(help="The name of the deployment, as for `emsco serve`."),
    "engine": "Where to run: on this machine, or on a Ray cluster, which most users never need.",
    "error_cost": typer.Option(
        metavar="[LABEL=]PRICE",
        help="The price of an error, for --by loss: one price, or one per true class (repeat the "
        "option).",
    ),
    "force": "Overwrite existing files.",
    "fresh": "A file of rows that the search has not seen, to evaluate the front on.",
    "key_column": typer.Option(help="The column that holds the keys.", show_default="the first"),
    "keys": typer.Option(
        help="CSV or Parquet with one key per row; - reads CSV from standard input."
    ),
    "label": typer.Option(help="The column that holds the label."),
    "max_cost": "The maximum cost of a single decision.",
    "max_spend": typer.Option(
        min=0.0,
        help="The maximum to spend on sources with `paid = true`, in the unit of the costs.",
    ),
    "model": "A model, or the folder of a search.",
    "n_jobs": "The number of workers; -1: one per core.",
    "newlines_in_cells": "Allow line breaks in quoted CSV cells; they are refused otherwise, "
    "because an unclosed quote joins rows.",
    "population": typer.Option(
        metavar="LABEL=SHARE",
        help="The share of a class among future rows, if it differs in --fresh; can be repeated. "
        "It changes only the figures on fresh rows, not fronts or certificates.",
    ),
    "quiet": typer.Option("--quiet", "-q", help="Show no progress."),
    "random_state": "The seed of all randomness.",
    "run": "The folder that `emsco search` wrote.",
    "sources": typer.Option(help="A TOML file that describes how each source is fetched."),
    "state": typer.Argument(
        envvar="EMSCO_STATE", help="The state of the service: redis://... or postgresql://..."
    ),
    "trust": "A type to trust when loading a file whose stages are other estimators; can be "
    "repeated.",
}


class CertifyWay(StrEnum):
    """What a certificate of agreement tests."""

    FRONT = "front"
    LADDER = "ladder"


def options(
    *, measures: Mapping[str, Measure] = FrozenMapping(), repeated: bool = False, **own: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare the options of a command: the signature has types and defaults, `own` has the help.

    What `own` leaves out is in `_SHARED`. A text is the help of an argument if the parameter has no
    default, of a flag if the default is False, and of an option otherwise. The options of measures
    take the place of the parameter `measures`, and a text in `own` ends the help of one; with
    `repeated`, those that can be certified alone ask several questions.
    """

    def declare(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            if measures:
                values["measures"] = {name: values.pop(name) for name in measures}
            command(**values)

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            parameter = parameter.replace(kind=parameter.KEYWORD_ONLY)
            if parameter.name == "measures":
                for name, measure in measures.items():
                    option = _option_of(measure, own.get(name, "."), repeated)
                    parameters.append(parameter.replace(name=name, default=None, annotation=option))
            else:
                info = _info(parameter, own.get(parameter.name) or _SHARED[parameter.name])
                parameters.append(
                    parameter.replace(annotation=Annotated[parameter.annotation, info])
                )
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # for typer
        return run

    return declare


def _info(parameter: inspect.Parameter, info: Any) -> Any:
    """Return what typer needs to know of a parameter, where a text is only its help."""
    if not isinstance(info, str):
        return info
    if parameter.default is parameter.empty:
        return typer.Argument(help=info)
    return typer.Option(*[flag_of(parameter.name)] * (parameter.default is False), help=info)


def _option_of(measure: Measure, end: str, repeated: bool) -> Any:
    """Return the type of the option of a measure, with its help."""
    if measure.is_by_class:
        text = f"{measure.help}; can be repeated."
        return Annotated[list[str] | None, typer.Option(metavar="LABEL=SHARE", help=text)]
    if repeated and measure.certifies_alone:
        text = f"{measure.help}; repeat it to ask several questions."
        return Annotated[list[float] | None, typer.Option(help=text)]
    return Annotated[float | None, typer.Option(help=f"{measure.help}{end}")]


def flag_of(parameter: str) -> str:
    """Return the flag of a parameter."""
    return f"--{parameter.replace('_', '-')}"


def read_measures(
    measures: Mapping[str, Measure], values: Mapping[str, Any]
) -> Callable[[Iterable[Any]], dict[str, Any]]:
    """Parse options of measures; what is returned replaces label texts by the classes they name.

    Options that were not given are left out.
    """
    by_label = {
        name: shares_by_label(values[name], flag_of(name))
        for name, measure in measures.items()
        if measure.is_by_class
    }
    plain = {name: values[name] for name in measures if name not in by_label}

    def with_classes(classes: Iterable[Any]) -> dict[str, Any]:
        labels = list(classes)
        shares = {n: by_class(own, labels, flag_of(n)) for n, own in by_label.items()}
        return {name: value for name, value in (plain | shares).items() if value not in (None, [])}

    return with_classes


class EngineName(StrEnum):
    """The engines that can be chosen."""

    local = "local"
    ray = "ray"


@contextmanager
def workers_of(
    engine: EngineName, address: str | None, n_jobs: int | None = None
) -> Iterator[RayEngine | None]:
    """Connect to Ray for the duration of a block if chosen; None means this machine."""
    if engine is EngineName.local:
        yield None
        return
    from emsco.ray import RayEngine

    tell("start Ray" if address is None else "connect to Ray")
    with RayEngine(n_jobs, address=address) as workers:
        yield workers


def refuse_address(engine: EngineName, address: str | None) -> None:
    """Refuse a cluster address without --engine ray."""
    if address is not None and engine is EngineName.local:
        raise typer.BadParameter("--address names a Ray cluster; add --engine ray to use it.")


def read_caution(text: str | None) -> float | str | None:
    """Parse --caution."""
    if text is None or text == "auto":
        return text
    number = _number(text)
    if number is None:
        raise typer.BadParameter(
            f"--caution takes auto or a number of standard errors >= 0; got {text!r}."
        )
    return number


def read_error_cost(options: Sequence[str] | None) -> float | dict[str, float] | None:
    """Parse one price for all errors, or one per label."""
    if not options:
        return None
    bare = [text for text in options if "=" not in text]
    if bare and len(options) > 1:
        raise typer.BadParameter(
            "--error-cost takes one price, or a label with each price, such as --error-cost "
            f"sick=500 --error-cost well=20; got {' and '.join(map(repr, options))}."
        )
    if not bare:
        return shares_by_label(options, "--error-cost", "PRICE", "sick=500")
    price = _number(bare[0])
    if price is None:
        raise typer.BadParameter(
            f"--error-cost takes a price of 0 or more, or LABEL=PRICE; got {bare[0]!r}."
        )
    return price


def read_label_weights(options: Sequence[str] | None) -> str | dict[str, float] | None:
    """Parse `balanced`, or a weight for each label."""
    if not options:
        return None
    if [*options] == ["balanced"]:
        return "balanced"
    return shares_by_label(options, "--label-weights", "WEIGHT", "sick=20")


def shares_by_label(
    options: Sequence[str] | None, flag: str, what: str = "SHARE", example: str = "sick=0.02"
) -> dict[str, float]:
    """Parse `sick=0.02`; labels stay text until the classes are known."""
    shares: dict[str, float] = {}
    for text in options or ():
        label, sign, share = text.rpartition("=")
        if label in shares:
            raise typer.BadParameter(f"{flag} names {label!r} twice; give it once.")
        number = _number(share)
        if not sign or number is None:
            raise typer.BadParameter(f"{flag} takes LABEL={what}, such as {example}; got {text!r}.")
        shares[label] = number
    return shares


def read_allow(options: Sequence[str] | None) -> dict[str, str]:
    """Parse what is allowed, with the reasons."""
    allowed: dict[str, str] = {}
    for text in options or ():
        name, sign, why = text.partition("=")
        if not sign or name in allowed:
            raise typer.BadParameter(
                "--allow takes NAME=WHY, each name once, such as --allow 'repeated rows=sensors "
                f"send the same values twice'; got {text!r}."
            )
        allowed[name] = why
    return allowed


def _number(text: str) -> float | None:
    """Parse a number of 0 or more; None for any other text."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < inf else None


def population_of(
    options: Sequence[str] | None, fresh: Path | None, classes: Iterable[Any]
) -> dict[Any, float] | None:
    """Parse --population, the class shares among future rows."""
    shares = shares_by_label(options, "--population")
    if shares and fresh is None:
        raise ColumnsError("--population describes the rows of --fresh; give both options.")
    return by_class(shares, classes, "--population")


def by_class(
    shares: Mapping[str, float], classes: Iterable[Any], flag: str
) -> dict[Any, float] | None:
    """Replace label texts by the classes they name, of whatever type; None if there are none."""
    known = {str(label): label for label in classes}
    for name in shares:
        if name not in known:
            raise ClassesError(
                f"{flag} names {name!r}, which is not a class" + nearest(name, known)
            )
    return {known[name]: share for name, share in shares.items()} or None
