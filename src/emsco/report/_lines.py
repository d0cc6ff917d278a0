"""A search and its choice, as lines of Python and of the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from emsco._utils.public_names import PUBLIC
from emsco.core.measures import boundable
from emsco.core.selection import MAX_GAP
from emsco.search.default_rule import CHOSEN_BY_HAND

_GUARD = "InputGuard(pool='auto')"  # that of `emsco search`
_NUMBERS = ("max_stages", "cv", "max_rows", "random_state")  # options of `emsco search` too


def python_lines(search: Any, params: Mapping[str, Any]) -> list[str]:
    """Write the search as lines of Python, with prices in a file."""
    name = type(search).__name__
    arguments = ['costs="costs.toml"']
    arguments += [f"{key}={' '.join(repr(value).split())}" for key, value in params.items()]
    kinds = {type(value) for value in params.values()}
    ours = sorted(kind.__name__ for kind in kinds if kind.__name__ in PUBLIC)
    others = sorted(
        f"from {_module(kind)} import {kind.__name__}"
        for kind in kinds
        if kind.__name__ not in ours and kind.__module__ != "builtins"
    )
    return [
        f"from emsco import {', '.join([name, *ours])}",
        "from emsco.report import report",
        *others,
        f"search = {name}({', '.join(arguments)})",
        "search.fit(X, y)" if search.needs_labels else "search.fit(X)",
    ]


def _module(kind: type) -> str:
    """Name the module that users import a class from: without the private file that it is in."""
    parts = kind.__module__.split(".")
    return ".".join(takewhile(lambda part: not part.startswith("_"), parts))


def shell_line(params: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Write the search as a command line, and name the parameters that it cannot tell."""
    # The command line has a guard unless told, Python has none.
    options = {} if "guard" in params else {"guard": ["--no-guard"]}
    options |= {name: list(_options(name, value)) for name, value in params.items()}
    words = [word for words_of in options.values() for word in words_of]
    command = ["emsco", "search", "data.csv", "--label", "y", "--costs", "costs.toml"]
    left_out = [name for name, words_of in options.items() if not words_of]
    return shlex.join([*command, *words, "--out", "run/"]), left_out


def _options(name: str, value: Any) -> Iterator[str]:
    """Give a parameter as words of the command line; none where it has no option."""
    if name in _NUMBERS and isinstance(value, int):
        yield from (f"--{name.replace('_', '-')}", str(value))
    elif name == "threshold":
        thresholds = value if isinstance(value, list) else [value]
        if all(isinstance(threshold, float) for threshold in thresholds):
            yield from (word for number in thresholds for word in ("--threshold", str(number)))
    elif name == "label_weights":
        pairs = [f"{k}={w}" for k, w in value.items()] if isinstance(value, Mapping) else [value]
        yield from (f"--label-weights={pair}" for pair in pairs)
    elif name in boundable():  # limits of the search itself
        flag = name.replace("_", "-")
        yield from (f"--{flag}={label}={share}" for label, share in value.items())
    elif name == "select" and isinstance(value, Mapping) and list(value) == ["caution"]:
        yield from ("--caution", str(value["caution"]))
    elif name == "guard" and repr(value) == _GUARD:
        yield "--guard"


def choice_lines(search: Any) -> dict[str, str | None] | None:
    """Write the arguments that repeat a choice, for `choose` and for `emsco select`.

    None if a candidate of the front was given: no rule repeats that, but bounds do. One that is not
    on the front has no line for `emsco select`, which takes bounds.
    """
    choice = search.choice_
    if choice.rule in ("", CHOSEN_BY_HAND):
        if choice.candidate in search.front_:
            return None
        is_all = choice.candidate == search.all_sources_
        return {"python": "search.all_sources_" if is_all else "candidate", "shell": None}
    bounds = {name: value for name, value in choice.bounds.items() if value is not None}
    if MAX_GAP in bounds:  # the command line has no rows whose groups it could compare
        options = [f"{name}={_plain(value)!r}" for name, value in bounds.items() if name != "by"]
        return {"python": ", ".join([*options, "by=groups"]), "shell": None}
    python = [f"{name}={_plain(value)!r}" for name, value in bounds.items()]
    words = [word for name, value in bounds.items() for word in _bound(name, value)]
    return {"python": ", ".join(python), "shell": shlex.join(words)}


def _bound(name: str, value: Any) -> Iterator[str]:
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, Mapping):
        yield from (word for label, each in value.items() for word in (flag, f"{label}={each}"))
    else:
        yield from (flag, str(value))


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
