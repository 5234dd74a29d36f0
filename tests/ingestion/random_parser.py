"""Parser whose text ends with a random word, so two documents have the same text only if they share one parse."""

import os
import time
from pathlib import Path
from typing import Any

from carrel.plugins.parsers import Block, BlockKind, CorruptFile, ParsedDocument, ParseOptions, ServiceWarning

SLOW_SECONDS = 1.0


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Return the text of the file with a random word. A text that begins with ``broken`` is a damaged file."""
    text = path.read_text(encoding=options.encoding or "utf-8")
    if text.startswith("broken"):
        raise CorruptFile
    words = " ".join(os.urandom(16).hex() for _ in range(5_000 if text.startswith("large") else 1))
    warnings: list[Any] = ["The random parser read the file."]
    if text.startswith("slow"):
        time.sleep(SLOW_SECONDS)
        warnings = [ServiceWarning("ocr_pages_not_read", "The time was up.")] if "scan" in text else warnings
    return ParsedDocument([Block(BlockKind.PARAGRAPH, f"{text} {words}")], title="Random", warnings=warnings)
