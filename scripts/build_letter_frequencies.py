"""Builds the letter frequencies of encoding detection from the language profiles of langdetect (Apache License 2.0).

Run ``python -m scripts.build_letter_frequencies DIRECTORY``; the directory is ``langdetect/profiles`` of release 1.0.9.
"""

import json
import math
import sys
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

TARGET = Path("app/ingestion/parsers/toolkit/letter_frequencies.json")
SCRIPTS = {
    "ARABIC": "ar ur fa", "CYRILLIC": "bg mk ru uk", "GREEK": "el", "HANGUL": "ko", "HEBREW": "he", "THAI": "th",
    "LATIN": "vi tr cs hr hu pl ro sk sl sq lt lv et da de en es fi fr it nl no pt sv",
}  # fmt: skip
"""Languages by the first word of the Unicode names of their letters."""

MAX_COST = 12.0
"""Cost, in natural units of information, above which a pair is left out."""

MIN_LETTER_SHARE = 1e-5


def main() -> None:
    """Write the table of all languages."""
    directory = Path(sys.argv[1])
    tables = {
        language: _build_table(directory / language, script)
        for script, languages in SCRIPTS.items()
        for language in languages.split()
    }
    TARGET.write_text(json.dumps(tables, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def _build_table(path: Path, script: str) -> dict[str, dict[str, str]]:
    """Return the letters and the pairs of letters of a language, grouped by cost in half units.

    Pairs of Korean syllables are left out, because the syllables alone distinguish the encodings.
    """
    letters: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    for gram, count in json.loads(path.read_text(encoding="utf-8"))["freq"].items():
        folded = "".join(
            character.lower() if unicodedata.name(character, "").startswith(script) else " " for character in gram
        )
        if len(folded) == 1 and folded != " ":
            letters[folded] += count
        elif len(folded) == len(gram) == 2 and folded != "  " and script != "HANGUL":
            pairs[folded] += count
    total = letters.total()
    starts: Counter[str] = Counter()
    for pair, count in pairs.items():
        starts[pair[0]] += count
    costs = {pair: -math.log(count / starts[pair[0]]) for pair, count in pairs.items()}
    shares = {letter: count / total for letter, count in letters.items() if count >= MIN_LETTER_SHARE * total}
    cheap = {
        pair: cost for pair, cost in costs.items() if cost < MAX_COST and all(c == " " or c in shares for c in pair)
    }
    return {"letters": _group({letter: -math.log(share) for letter, share in shares.items()}), "pairs": _group(cheap)}


def _group(costs: dict[str, float]) -> dict[str, str]:
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for text, cost in costs.items():
        groups[round(2 * cost)].append(text)
    return {str(cost): "".join(sorted(groups[cost])) for cost in sorted(groups)}


if __name__ == "__main__":
    main()
