"""Configuration of Sphinx, which builds the documentation site (``make docs``)."""

import re
from pathlib import Path

from docutils import nodes
from mermaid_render.api import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

_DOCS = Path(__file__).parent
_ROOT = _DOCS.parent
_LOG = logging.getLogger(__name__)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)\s#]+)(?:#[^)\s]*)?\)")
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)

project = "Carrel"
author = "The Carrel authors"
copyright = "The Carrel authors"
version = release = _VERSION.findall((_ROOT / "carrel/__init__.py").read_text("utf-8"))[0]

extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["examples/**"]
# Code blocks without a language are plain text.
highlight_language = "none"
nitpicky = True

# A heading is the target of a link like GitHub's: "page.md#the-heading".
myst_heading_anchors = 5
myst_fence_as_directive = ["mermaid"]

html_theme = "furo"
html_title = f"Carrel {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_use_index = False
html_show_sourcelink = False
html_show_sphinx = False
# Prompts are not copied, and lines of output are not either.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True


class MermaidDiagram(SphinxDirective):
    """A Mermaid diagram, drawn as SVG when the site is built; a faulty diagram fails the build."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the drawing of the block's text."""
        try:
            drawing = convert("\n".join(self.content), format="svg", theme="neutral").decode()
        except Exception as error:
            raise self.error(f"The diagram is not valid Mermaid: {error}") from error
        return [nodes.raw("", f'<figure class="diagram">{drawing}</figure>', format="html")]


def replace_repository_links(_app: Sphinx, page: str, source: list[str]) -> None:
    """Replace each link to a file outside of ``docs/`` by the file's path: the site does not contain that file."""

    def replace(link: re.Match[str]) -> str:
        target = ((_DOCS / page).parent / link[2]).resolve()
        if target.is_relative_to(_DOCS):
            return link[0]
        if not target.exists():
            _LOG.warning("%s does not exist", link[2], location=page)
        path = target.relative_to(_ROOT).as_posix()
        return f"`{path}`" if link[1].strip("`") in {path, target.name} else f"{link[1]} (`{path}`)"

    source[0] = _LINK.sub(replace, source[0])


def setup(app: Sphinx) -> None:
    """Register the directive of diagrams and the replacement of links."""
    app.connect("source-read", replace_repository_links)
    app.add_directive("mermaid", MermaidDiagram)
