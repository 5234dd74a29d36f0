"""Language detection with py3langid, which is pure Python because texts are untrusted (docs/adr/0009)."""

from functools import lru_cache
from threading import Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# Windows are spread over the whole text, so that a preface or a page of code does not decide the result.
WINDOW_COUNT = 8
WINDOW_CHARACTERS = 250
# Below this probability, one in fifty short texts is assigned a wrong language. Such texts get the default language.
MIN_PROBABILITY = 0.3

# ISO 639 codes. Some languages map to a larger language that is written alike.
_LANGUAGES = {
    "ar": "arabic", "ary": "arabic", "arz": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german",
    "el": "greek", "en": "english", "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque",
    "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "ja": "japanese", "ko": "korean", "lt": "lithuanian", "ne": "nepali",
    "nl": "dutch", "nn": "norwegian", "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sr": "serbian", "st": "sesotho", "sv": "swedish", "ta": "tamil", "th": "thai", "tr": "turkish",
    "wuu": "chinese", "yue": "chinese", "zh": "chinese",
}  # fmt: skip
# Languages without an analyzer whose texts are often uploaded.
_OTHER_LANGUAGES = {
    "af": "afrikaans", "bs": "bosnian", "cy": "welsh", "gl": "galician", "hr": "croatian", "is": "icelandic",
    "lv": "latvian", "ms": "malay", "nb": "norwegian", "sk": "slovak", "sl": "slovenian", "sq": "albanian",
    "sw": "swahili", "tl": "filipino", "vi": "vietnamese",
}  # fmt: skip
_load_lock = Lock()


def detect_language(text: str) -> str | None:
    """Detect the main language of a text.

    Detection takes a few milliseconds for any length. The first call in a process loads 80 MB.

    Args:
        text: Text to classify.

    Returns:
        A language that has an analyzer; None if no such language is likely enough.
    """
    code, probability = classify_text(sample_text(text))
    return _LANGUAGES.get(code) if probability >= MIN_PROBABILITY else None


def classify_text(text: str) -> tuple[str, float]:
    """Return the most probable language of a whole text, by its ISO 639 code, and its probability."""
    with _load_lock:  # two threads must not both load the model
        identifier = _load_identifier()
    code, probability = identifier.classify(text)
    return str(code), float(probability)


def get_language_name(code: str) -> str | None:
    """Return the name of a language by its ISO 639 code, also if it has no analyzer; None if the code is not known."""
    return _LANGUAGES.get(code) or _OTHER_LANGUAGES.get(code)


def is_detector_loaded() -> bool:
    """Return whether the detector can classify a text at once."""
    return _load_identifier.cache_info().currsize > 0


def load_detector_in_thread() -> None:
    """Begin to load the detector, so that a later text can be classified. The call returns at once."""
    if is_detector_loaded() or not _load_lock.acquire(blocking=False):  # otherwise another thread loads it
        return
    try:
        Thread(target=_load_and_release, name="language-detector", daemon=True).start()
    except RuntimeError:  # the process may start no more threads now; a later text tries again
        _load_lock.release()


def _load_and_release() -> None:
    """Load the detector in a thread that was given the lock."""
    try:
        _load_identifier()
    finally:
        _load_lock.release()


def sample_text(text: str) -> str:
    """Return a short text whole, and of a longer text windows at even distances from beginning to end."""
    if len(text) <= WINDOW_COUNT * WINDOW_CHARACTERS:
        return text
    distance = (len(text) - WINDOW_CHARACTERS) / (WINDOW_COUNT - 1)
    starts = [round(number * distance) for number in range(WINDOW_COUNT)]
    return "\n".join(text[start : start + WINDOW_CHARACTERS] for start in starts)


@lru_cache(maxsize=1)
def _load_identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # the model is loaded at first use

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
