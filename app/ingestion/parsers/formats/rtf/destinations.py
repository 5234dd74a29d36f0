"""Control words of RTF by their meaning: characters, destinations that are left out, and destinations that are read."""

CHARACTERS = {
    "~": "\u00a0", "_": "\u2011", "-": "", "tab": "\t", "line": "\n", "lbr": "\n", "softline": "\n", "emdash": "—",
    "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "emspace": " ",
    "enspace": " ", "qmspace": " ", "zwj": "\u200d", "zwnj": "\u200c", "ltrmark": "\u200e", "rtlmark": "\u200f",
    "{": "{", "}": "}", "\\": "\\",
}  # fmt: skip
"""Text of the control words and symbols that are characters."""

SKIPPED = frozenset(
    {
        "colortbl", "nonshppict", "shprslt", "nonesttables", "tc", "tcn", "xe", "rxe", "txe", "filetbl", "revtbl",
        "ftnsep", "ftnsepc", "ftncn", "aftnsep", "aftnsepc", "aftncn", "private", "template", "keywords", "background",
        "mmathpr", "datafield", "objdata", "atnid", "atnauthor", "atndate", "atnparent", "bkmkstart", "bkmkend",
    }
)  # fmt: skip
"""Destinations without text that a reader sees. A destination with ``*`` is skipped too if it is not in ``READ``."""

READ = frozenset(
    {
        "shppict", "shpinst", "picprop", "do", "dptxbxtext", "shptxt", "annotation", "footnote", "fldinst", "formfield",
        "ffl", "nesttableprops", "listtext", "pntext", "momath", "momathpara", "mmath", "result", "sp",
        "sn", "sv", "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf",
    }
)  # fmt: skip
"""Destinations that are read although they are marked with ``*``."""

HEADERS = frozenset({"header", "headerl", "headerr", "headerf"})
FOOTERS = frozenset({"footer", "footerl", "footerr", "footerf"})
SHAPE_TEXT_PROPERTIES = frozenset({"wzDescription", "gtextUNICODE"})
"""Properties of shapes with text: the alternative text, and the text of WordArt."""
