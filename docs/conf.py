"""The site: Markdown of this folder, docstrings of the package, scripts of the gallery.

`make docs` builds it, with warnings as errors. The theme is pydata-sphinx-theme: numpy, pandas and
scikit-learn use it, so readers know their way around; it has a dark mode and loads nothing from
other hosts.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docutils import nodes

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import reference  # noqa: E402

import emsco  # noqa: E402

project = "emsco"
author = copyright = "The emsco developers"  # noqa: A001
version = release = emsco.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "api-examples.md", "gallery/*.ipynb", "**/sg_execution_times.rst"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections tell the types, in words
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"  # the class is the title of the page
numpydoc_show_class_members = False  # members are listed by the templates
numpydoc_xref_param_type = False
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = "emsco"
html_static_path = ["_static"]
html_css_files = ["emsco.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars: dict[str, list[str]] = {"index": []}  # the start page has cards instead

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

if any((ROOT / "examples").glob("*.py")):
    from sphinx_gallery.sorting import ExplicitOrder

    # From questions that everybody has to those of operators.
    GALLERY = [
        "clinic",
        "phishing",
        "intrusion",
        "credit_bureau",
        "money_and_time",
        "unequal_harms",
        "fraud_review",
        "amounts",
        "drift",
        "redis",
        "warehouse",
        "text_cascade",
    ]
    html_css_files.append("gallery.css")
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": str(ROOT / "examples"),  # of its folders, those with a GALLERY_HEADER
        "gallery_dirs": "gallery",
        "filename_pattern": "/plot_",  # these run in the build; the others are shown as they are
        "within_subsection_order": ExplicitOrder([f"plot_{name}.py" for name in GALLERY]),
        "ignore_repr_types": r"matplotlib\.",  # pictures are shown, not what draws them
        "abort_on_example_error": True,
        "download_all_examples": False,
        "remove_config_comments": True,
        "show_memory": False,
        "show_signature": False,
        "min_reported_time": 3600,
        "write_computation_times": False,
    }


def setup(app: object) -> None:
    """Write the pages of the API, and give names the examples that their docstrings lack."""
    reference.write_pages()
    app.connect("autodoc-process-docstring", reference.add_example)  # type: ignore[attr-defined]
    app.connect("autodoc-skip-member", reference.skip_routing)  # type: ignore[attr-defined]
    app.connect("doctree-read", strip_blocks)  # type: ignore[attr-defined]


def strip_blocks(app: object, doctree: nodes.document) -> None:
    """Leave out the blank line that ends examples, which doctest needs and readers do not."""
    del app
    for block in doctree.findall(nodes.literal_block):
        text = block.astext()
        if text != text.rstrip():
            block.children = []
            block += nodes.Text(text.rstrip())
            block.rawsource = text.rstrip()
