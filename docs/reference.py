"""The API of the site: every public name with its page, and the examples that docstrings lack.

Public are the names of `PUBLIC` in `emsco._utils.public_names`; what the modules of `MODULES`
offer, which is their `__all__`, or else the classes and functions that they define; and the
`__all__` of other rooms. Modules that only hold names of `PUBLIC` are other import paths of these.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import emsco
from emsco._utils.public_names import MODULES, PUBLIC

HERE = Path(__file__).parent
PACKAGE = Path(emsco.__file__).parent
FOLDER = HERE / "api"
EXAMPLES = HERE / "api-examples.md"

# What one wants to do, in the order in which one comes to it: the page that lists what is for it,
# what it is, and its names. A module stands for those of its names that no task lists.
TASKS = {
    "search": (
        "Search",
        "Which sources to buy, in which order, and when to stop.",
        ["CascadeSearchCV", "Hybrid", "Exhaustive", "LocalSearch", "EMSCO"],
    ),
    "decide": (
        "Decide",
        "A cascade and what it says about each row.",
        [
            "CascadeClassifier",
            "Decisions",
            "Decision",
            "StageDesign",
            "InputGuard",
            "MaskedClassifier",
            "Decider",
            "cascade",
        ],
    ),
    "prices": ("Prices", "What sources, setups and reviews cost.", ["Costs", "Source", "Review"]),
    "choose": (
        "Evaluate and choose",
        "Counts on rows, the front, and candidates on fresh rows.",
        [
            "evaluate",
            "Evaluation",
            "Breakdown",
            "ParetoFront",
            "Candidate",
            "ScoredFront",
            "ScoredCandidate",
            "metrics",
        ],
    ),
    "certify": (
        "Certify",
        "Promises that hold with a confidence, on rows kept for them.",
        ["certify.certify", "certify.certify_together", "required_rows", "Certificate", "certify"],
    ),
    "monitor": (
        "Monitor",
        "Whether a promise still holds.",
        ["CertificateMonitor", "monitor"],
    ),
    "plots": (
        "Plots and the report",
        "Pictures of a search, and a page to choose in.",
        ["report.report", "FrontDisplay", "FlowDisplay", "SourcesDisplay", "HistoryDisplay"],
    ),
    "final": (
        "A model that you have",
        "Models as the last stage, and what cheaper stages save.",
        ["savings", "final"],
    ),
    "batch": (
        "A batch",
        "Labels as an expensive model would give them, for a part of its calls.",
        ["batch.label_batch", "batch.label_answers", "batch", "plotting.CallsDisplay"],
    ),
    "live": (
        "Live sources",
        "Features fetched while a row is decided.",
        ["live.LiveCascade", "live.Sources", "live"],
    ),
    "files": ("Files", "Models and searches on disk.", ["dump", "load", "io"]),
    "scale": (
        "Large tables and clusters",
        "Record batches, data sets in parts, and engines.",
        ["arrow", "LocalEngine", "Engine", "ray", "engine"],
    ),
    "datasets": ("Data sets", "Tables with prices, to try things on.", ["datasets"]),
    "extend": (
        "Parts of your own",
        "What searches are made of, and checks of what you write.",
        ["search", "testing"],
    ),
    "errors": ("Errors and warnings", "What may go wrong, by name.", ["exceptions"]),
}


def modules() -> dict[str, list[str]]:
    """Give the names of every public module that are not in the package itself, by module."""
    own = {id(getattr(emsco, name)) for name in PUBLIC}
    rooms = {path.parent.name for path in PACKAGE.glob("[a-z]*/__init__.py")}
    found = {}
    for module in sorted({*rooms, *MODULES}):
        loaded = importlib.import_module(f"emsco.{module}")
        listed = getattr(loaded, "__all__", None)
        if listed is None and (module in PUBLIC.values() or module not in MODULES):
            continue
        names = listed if listed is not None else _defined(loaded)
        values = {name: getattr(loaded, name) for name in names}
        kept = [n for n, value in values.items() if id(value) not in own and _is_code(value)]
        if kept:
            found[f"emsco.{module}"] = kept
    return found


def _defined(module: Any) -> list[str]:
    errors_only = module.__name__ == "emsco.exceptions"  # what else it has is for the rooms
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and _is_code(value)
        and value.__module__ == module.__name__
        and (not errors_only or (inspect.isclass(value) and issubclass(value, Exception)))
    ]


def _is_code(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isroutine(value)


def names() -> dict[str, Any]:
    """Give every public name with its value: `emsco.Costs`, `emsco.certify.certify`, ..."""
    found = {f"emsco.{name}": getattr(emsco, name) for name in PUBLIC}
    for module, listed in modules().items():
        loaded = importlib.import_module(module)
        found |= {f"{module}.{name}": getattr(loaded, name) for name in listed}
    return found


def examples() -> dict[str, str]:
    """Read the examples of names whose docstrings have none. One may show several names."""
    text = EXAMPLES.read_text(encoding="utf-8")
    parts = re.split(r"^## `(.+)`\n", text, flags=re.MULTILINE)[1:]
    found = {}
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        block = "\n".join(re.findall(r"```python\n(.*?)```", body, flags=re.DOTALL))
        found |= dict.fromkeys(heading.split("`, `"), block)
    return found


def has_example(name: str, value: Any) -> bool:
    """Say whether a name is shown in use."""
    return ">>>" in (value.__doc__ or "") or name in examples()


def add_example(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Put the example of a name below its docstring."""
    del app, what, options
    block = examples().get(name)
    if block is not None and ">>>" not in (value.__doc__ or ""):
        lines += ["", ".. rubric:: Examples", "", *block.splitlines(), ""]


def skip_routing(
    app: Any, what: str, name: str, value: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out methods that scikit-learn adds to every estimator, which refer to its own site."""
    del app, what, value, skip, options
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def tasks() -> dict[str, list[str]]:
    """Give the names of each task; every public name has one task."""
    left = list(names())
    found: dict[str, list[str]] = {task: [] for task in TASKS}
    listed = [(task, f"emsco.{entry}") for task, (*_, own) in TASKS.items() for entry in own]
    for task, name in [pair for pair in listed if pair[1] in left]:
        found[task].append(name)
        left.remove(name)
    for task, module in listed:
        of_module = [name for name in left if name.rpartition(".")[0] == module]
        found[task] += of_module
        left = [name for name in left if name not in of_module]
    if left:
        raise ValueError(f"No task of docs/reference.py lists {', '.join(left)}.")
    return found


def write_pages() -> None:
    """Write a page of contents and one for each task; autosummary writes one for each name."""
    FOLDER.mkdir(exist_ok=True)
    toctree = [".. toctree::", "   :hidden:", "", *(f"   {task}" for task in TASKS), ""]
    contents = ["API", "===", "", TEXT, "", *toctree]
    for task, listed in tasks().items():
        title, text, _ = TASKS[task]
        contents += [f":doc:`{title} <{task}>`", "-" * (len(title) + len(task) + 11), ""]
        contents += [text, "", *_table(listed)]
        _write(task, [title, "=" * len(title), "", text, "", *_table(listed, "   :toctree: .")])
    _write("index", contents)


TEXT = (
    "Every public name, with an example that runs. What has no page here, or an underscore in its "
    "path, may change in any version."
)


def _table(listed: list[str], *options: str) -> list[str]:
    head = [".. autosummary::", "   :nosignatures:", *options, ""]
    return [*head, *(f"   {name}" for name in listed), ""]


def _write(name: str, lines: list[str]) -> None:
    """Write a page where it differs: Sphinx reads again what is newer than before."""
    page, text = FOLDER / f"{name}.rst", "\n".join(lines)
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")
