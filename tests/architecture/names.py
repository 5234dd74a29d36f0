"""Rules of names: forbidden words and prefixes, and the verbs that functions begin with."""

import re
from pathlib import Path

# Words without meaning, and words with a glossary term in their place.
FORBIDDEN_WORDS = frozenset(Path(__file__).with_name("private_words.txt").read_text().split())
# A limit is max_x or min_x; a cached or stored value is cached_x or stored_x.
FORBIDDEN_PREFIXES = ("most_", "least_", "known_", "made_", "found_", "held_", "seen_")
FORBIDDEN_NAMES = frozenset({"one", "most", "least", "found", "known", "made", "held", "seen", "taken", "rest"})

# Nouns in -ing that are names of activities in the field.
NOUNS_IN_ING = frozenset(
    {"answering", "chunking", "embedding", "logging", "pooling", "ranking", "reranking", "routing", "timing"}
)
# Names that a module of any package may have.
SHARED_MODULE_NAMES = frozenset({"__init__", "__main__", "service", "repository", "types", "errors", "factory"})

# A function begins with a verb or with one of these predicates.
PREDICATES = frozenset(
    {"is", "are", "has", "have", "can", "needs", "may", "accepts", "affects", "contains", "covers", "ends", "equals"}
    | {"exceeds", "exists", "includes", "repeats", "starts"}
)
VERBS = frozenset((Path(__file__).with_name("verbs.txt")).read_text().split())
CONVERSION = re.compile(r"_*\w+_(from|to)_\w+|_*(from|to|as|on|with|without)_\w+")


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def faults_of(name: str) -> list[str]:
    """Return the reasons why a name is refused; none for a good name."""
    words, bare = words_of(name.replace("wall_clock", "").replace("WALL_CLOCK", "")), name.strip("_").lower()
    faults = [f"holds {word!r}" for word in words if word in FORBIDDEN_WORDS]
    faults += [f"begins with {prefix!r}" for prefix in FORBIDDEN_PREFIXES if bare.startswith(prefix)]
    return faults + (["says nothing"] if bare in FORBIDDEN_NAMES else [])


def is_verb_first(name: str) -> bool:
    first = words_of(name)[0]
    return first in VERBS or first in PREDICATES or CONVERSION.fullmatch(name) is not None
