"""Media types of text formats, by file extension and by declared media type."""

import re
from collections.abc import Mapping

from app.threads import SLICE_CHARACTERS

PLAIN, MARKDOWN, HTML, XML = "text/plain", "text/markdown", "text/html", "application/xml"
JSON, YAML, CSV, RST, MAIL, TEX = (
    "application/json",
    "application/yaml",
    "text/csv",
    "text/x-rst",
    "message/rfc822",
    "text/x-tex",
)
_MARKDOWN_HEADING = re.compile(r"^#{1,6}\s", re.MULTILINE)
# The number of characters that ``_MARKDOWN_HEADING`` needs.
_HEADING_PREFIX_LENGTH = 7

# File extensions by media type. The media types are from OpenAI's file search, or from common editors and web servers.
SOURCE_TYPES: Mapping[str, tuple[str, ...]] = {
    "application/toml": ("toml",),
    "application/typescript": ("ts", "tsx", "mts", "cts"),
    "application/x-sh": ("sh", "bash", "zsh", "ksh"),
    "text/css": ("css", "scss", "sass", "less"),
    "text/javascript": ("js", "jsx", "mjs", "cjs"),
    "text/x-c": ("c", "h"),
    "text/x-c++": ("cpp", "cc", "cxx", "hpp", "hh", "hxx", "ino"),
    "text/x-clojure": ("clj", "cljs", "edn"),
    "text/x-csharp": ("cs",),
    "text/x-dart": ("dart",),
    "text/x-elixir": ("ex", "exs"),
    "text/x-erlang": ("erl", "hrl"),
    "text/x-fsharp": ("fs", "fsx"),
    "text/x-golang": ("go",),
    "text/x-groovy": ("groovy", "gradle"),
    "text/x-haskell": ("hs",),
    "text/x-ini": ("ini", "cfg", "conf", "properties"),
    "text/x-java": ("java",),
    "text/x-julia": ("jl",),
    "text/x-kotlin": ("kt", "kts"),
    "text/x-lisp": ("lisp", "el", "scm"),
    "text/x-lua": ("lua",),
    "text/x-objectivec": ("m", "mm"),
    "text/x-ocaml": ("ml", "mli"),
    "text/x-perl": ("pl", "pm"),
    "text/x-php": ("php",),
    "text/x-powershell": ("ps1", "psm1"),
    "text/x-protobuf": ("proto",),
    "text/x-python": ("py", "pyi", "pyw"),
    "text/x-r": ("r",),
    "text/x-ruby": ("rb", "rake"),
    "text/x-rust": ("rs",),
    "text/x-scala": ("scala", "sc"),
    "text/x-sql": ("sql",),
    "text/x-swift": ("swift",),
    "text/x-terraform": ("tf", "hcl"),
    "text/x-vb": ("vb", "vbs", "bas"),
    "text/x-vue": ("vue", "svelte"),
}

EXTENSIONS: Mapping[str, tuple[str, ...]] = {
    PLAIN: ("txt", "text", "log"),
    MARKDOWN: ("md", "markdown", "mkd"),
    HTML: ("html", "htm", "xhtml"),
    XML: ("xml", "svg", "rss", "atom", "xsd", "xsl", "xslt", "plist", "dbk", "tei", "gpx", "kml", "xliff", "xlf"),
    JSON: ("json", "jsonl", "ndjson", "geojson", "jsonld"),
    YAML: ("yaml", "yml"),
    CSV: ("csv", "tsv"),
    RST: ("rst", "rest"),
    MAIL: ("eml",),
    TEX: ("tex", "latex"),
    **SOURCE_TYPES,
}
_ALIASES: Mapping[str, tuple[str, ...]] = {
    MARKDOWN: ("text/x-markdown",),
    HTML: ("application/xhtml+xml",),
    XML: ("text/xml", "image/svg+xml", "application/rss+xml", "application/atom+xml"),
    JSON: ("text/json", "application/x-ndjson", "application/jsonl", "application/x-jsonlines", "application/ld+json"),
    YAML: ("application/x-yaml", "text/yaml", "text/x-yaml"),
    CSV: ("application/csv", "text/tab-separated-values"),
    RST: ("text/prs.fallenstein.rst",),
    TEX: ("application/x-tex", "application/x-latex"),
    "application/typescript": ("text/typescript", "text/x-typescript"),
    "application/x-sh": ("text/x-sh", "text/x-shellscript"),
    "text/javascript": ("application/javascript", "application/x-javascript"),
    "text/x-c++": ("text/x-c++src",),
    "text/x-c": ("text/x-csrc", "text/x-chdr"),
    "text/x-golang": ("text/x-go",),
    "text/x-php": ("application/x-httpd-php", "application/x-php"),
    "text/x-python": ("text/x-script.python", "application/x-python-code"),
    "text/x-sql": ("application/sql",),
}

# Further formats that consist of text. Files of these formats are recognized by their content.
TEXT_TYPES = frozenset({"application/rtf", "application/x-ipynb+json"})

MEDIA_TYPE_BY_EXTENSION: Mapping[str, str] = {name: kind for kind, names in EXTENSIONS.items() for name in names}
"""The media type of each extension. Extensions are in lower case and have no dot."""

MEDIA_TYPE_BY_DECLARED_TYPE: Mapping[str, str] = {
    **{kind: kind for kind in EXTENSIONS},
    **{name: kind for kind, names in _ALIASES.items() for name in names},
}
"""The media type that the service uses for each media type that a client may declare."""


def guess_text_type(text: str) -> str:
    """Return Markdown for a text with a Markdown heading, otherwise plain text."""
    starts = range(0, len(text), SLICE_CHARACTERS)
    has_heading = any(
        _MARKDOWN_HEADING.search(text, start, start + SLICE_CHARACTERS + _HEADING_PREFIX_LENGTH) for start in starts
    )
    return MARKDOWN if has_heading else PLAIN


def resolve_text_type(media_type: str) -> str | None:
    """Return the service's name of a text format that a client declares, or None if it is no text format.

    Args:
        media_type: Media type, which may have parameters.
    """
    name = media_type.partition(";")[0].strip().lower()
    return MEDIA_TYPE_BY_DECLARED_TYPE.get(name) or (name if name in TEXT_TYPES else None)
