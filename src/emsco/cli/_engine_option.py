"""The options that choose where a command runs: on this machine, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from emsco._utils.progress import tell

if TYPE_CHECKING:
    from emsco.ray import RayEngine


class EngineName(StrEnum):
    """The engines that can be chosen."""

    local = "local"
    ray = "ray"


Engine = Annotated[
    EngineName,
    typer.Option(
        help="Where to run: on this machine, or on a Ray cluster, which most users never need."
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="auto|HOST:PORT",
        help="The Ray cluster to use. Without it, one is started on this machine for the command.",
    ),
]


@contextmanager
def workers_of(
    engine: EngineName, address: str | None, n_jobs: int | None = None
) -> Iterator[RayEngine | None]:
    """Connect to Ray for the duration of a block if chosen; None means this machine."""
    refuse_address(engine, address)
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
