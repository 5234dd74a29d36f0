"""Questions in five languages about English documents: ``data/multilingual/questions.jsonl``."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = ("english", "german", "french", "spanish", "chinese")
QUESTIONS_FILE = Path(__file__).parent / "data" / "multilingual" / "questions.jsonl"


@dataclass(frozen=True, slots=True)
class TranslatedQuestion:
    """Question in five languages, and the id of its original in an evaluation set."""

    id: str
    set_name: str
    source_id: str
    texts: Mapping[str, str]


def read_questions(set_name: str | None = None) -> Sequence[TranslatedQuestion]:
    """Return the questions of one evaluation set, or of both."""
    lines = [json.loads(line) for line in QUESTIONS_FILE.read_text("utf-8").split("\n") if line]
    return [
        TranslatedQuestion(
            line["id"], line["set"], line["source_id"], {language: line[language] for language in LANGUAGES}
        )
        for line in lines
        if set_name in (None, line["set"])
    ]
