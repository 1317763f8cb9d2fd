"""The site, by Sphinx: `make docs` builds it in out/site, with warnings as errors."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "tools"))

from holonax import __version__  # noqa: E402

project = "holonax"
author = "The holonax authors"
copyright = "The holonax authors, Apache-2.0"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "docstrings",
    "gallery",
]
exclude_patterns = ["tools", "_static"]
templates_path = ["_templates"]

nb_custom_formats = {".md": ["notebooks.read", {}, False]}  # every page may have code that is run
nb_execution_mode = "auto"  # a page without code needs no kernel
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # progress bars
nb_merge_streams = True
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["mystnb.unknown_mime_type", "myst.header"]  # tables of benchmarks have headings of the third level

autosummary_generate = True
autodoc_typehints = "none"  # signatures say it in code; docstrings in words
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = "holonax"
html_static_path = ["_static", str(Path(find_spec("sphinx-mathjax-offline").origin).parent / "static")]
mathjax_path = "mathjax/tex-chtml.js"  # formulas need no network
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "holonax"},
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def _notebooks(app, error):
    """The tutorials with their output, beside their pages, to be downloaded."""
    for file in sorted((Path(app.outdir).parent / "jupyter_execute" / "tutorials").glob("*.ipynb")):
        shutil.copy(file, Path(app.outdir) / "tutorials")


def setup(app):
    """What Sphinx calls."""
    app.connect("build-finished", _notebooks)
