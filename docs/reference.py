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

# What each room's names are for; the order is that of the page. A room without a title goes last.
TITLES = {
    "core": "Prices, designs, decisions, fronts",
    "cascade": "Cascades",
    "search": "Searching",
    "learners": "Stages",
    "rows": "Guards",
    "certify": "Promises",
    "io": "Files",
    "plotting": "Plots",
    "engine": "Engines",
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


def write_pages() -> None:
    """Write the page of contents; autosummary writes one page for each name."""
    FOLDER.mkdir(exist_ok=True)
    rooms: dict[str, list[str]] = {}
    for name, place in PUBLIC.items():
        rooms.setdefault(place.partition(".")[0], []).append(f"emsco.{name}")
    parts = ["API", "===", "", _text(), ""]
    for room in sorted(rooms, key=lambda room: [*TITLES, room].index(room)):
        parts += _section(TITLES.get(room, room), "", sorted(rooms[room]))
    for module, listed in modules().items():
        first = (importlib.import_module(module).__doc__ or "").strip().partition("\n")[0]
        parts += _section(f"``{module}``", first, [f"{module}.{name}" for name in listed])
    page, text = FOLDER / "index.rst", "\n".join(parts)
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def _text() -> str:
    return (
        "Every public name, with an example that runs. Names of the first sections are imported "
        "from ``emsco`` itself, the others from their module. What has no page here, or an "
        "underscore in its path, may change in any version."
    )


def _section(title: str, text: str, listed: list[str]) -> list[str]:
    table = [".. autosummary::", "   :toctree: .", "   :nosignatures:", ""]
    return [title, "-" * len(title), "", text, "", *table, *(f"   {name}" for name in listed), ""]
