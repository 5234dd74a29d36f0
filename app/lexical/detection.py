"""The language of a text, by py3langid: Python alone, because the text may be anybody's (docs/adr/0009)."""

from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# Spread over the whole text, so that a preface or a page of code does not speak for all of it.
WINDOW_COUNT = 8
WINDOW_CHARACTERS = 250
# Below it one in fifty short texts is taken for another language; what is not taken for any has the default's words.
MIN_PROBABILITY = 0.3

# ISO 639 codes, with those of languages that are written as a greater one is.
_LANGUAGES = {
    "ar": "arabic", "ary": "arabic", "arz": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german",
    "el": "greek", "en": "english", "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque",
    "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "ja": "japanese", "ko": "korean", "lt": "lithuanian", "ne": "nepali",
    "nl": "dutch", "nn": "norwegian", "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sr": "serbian", "st": "sesotho", "sv": "swedish", "ta": "tamil", "th": "thai", "tr": "turkish",
    "wuu": "chinese", "yue": "chinese", "zh": "chinese",
}  # fmt: skip
_load_lock = Lock()


def detect_language(text: str) -> str | None:
    """The analyzer's language that most of a text is in, or None where that is not likely enough of any.

    A few milliseconds at most, whatever its length; the first call in a process loads 80 MB.
    """
    with _load_lock:  # not twice, by two threads
        identifier = _load_identifier()
    code, probability = identifier.classify(sample_text(text))
    return _LANGUAGES.get(code) if probability >= MIN_PROBABILITY else None


def sample_text(text: str) -> str:
    """The whole of a short text, else windows in even distances from its beginning to its end."""
    if len(text) <= WINDOW_COUNT * WINDOW_CHARACTERS:
        return text
    distance = (len(text) - WINDOW_CHARACTERS) / (WINDOW_COUNT - 1)
    starts = [round(number * distance) for number in range(WINDOW_COUNT)]
    return "\n".join(text[start : start + WINDOW_CHARACTERS] for start in starts)


@lru_cache(maxsize=1)
def _load_identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # its model is for those alone who have use for it

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
