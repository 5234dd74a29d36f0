"""Alternative texts of images, without the texts that programs write by default."""

import re

_GENERATED = re.compile(
    r"(?:description|alt text) (?:automatically )?generated(?: by \w+)?\.?|ai-generated content may be incorrect\.?"
    r"|automatisch generierte beschreibung\.?|description générée automatiquement\.?",
    re.IGNORECASE,
)
_DEFAULT = re.compile(
    r"(?:https?:|file:)\S*|[a-z]:\\.*|.*\.(?:png|jpe?g|gif|bmp|tiff?|emf|wmf|svg|webp)"
    r"|(?:picture|image|photo|graphic|graphics|grafik|bild|imagen|immagine|text ?box|textfeld|object|objekt|shape|logo"
    r"|diagram|chart|table|group|content placeholder|placeholder|rectangle) ?\d*",
    re.IGNORECASE,
)
MAX_CHARACTERS = 2_000


def clean_alt_text(text: str) -> str:
    """Return an alternative text that a person wrote.

    Args:
        text: Alternative text as the file has it.

    Returns:
        The text on one line, without the sentence that it was generated. It is empty if it is a file name or a
        default name such as ``Picture 1``.
    """
    cleaned = " ".join(_GENERATED.sub("", text[:MAX_CHARACTERS]).split())
    return "" if _DEFAULT.fullmatch(cleaned) else cleaned
