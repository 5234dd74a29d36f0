"""The rules of names: what a name may not hold, and the verbs that functions begin with."""

import re
from pathlib import Path

# Words that say nothing, or that have a term of the field in their place.
FORBIDDEN_WORDS = frozenset(Path(__file__).with_name("private_words.txt").read_text().split())
# A limit is max_x or min_x; a cached or stored value says which of the two it is.
FORBIDDEN_PREFIXES = ("most_", "least_", "known_", "made_", "found_", "held_", "seen_")
FORBIDDEN_NAMES = frozenset({"one", "most", "least", "found", "known", "made", "held", "seen", "taken", "rest"})

# Nouns in -ing: the name of an activity that the field calls so.
NOUNS_IN_ING = frozenset(
    {"answering", "chunking", "embedding", "logging", "pooling", "ranking", "reranking", "routing", "timing"}
)
# Modules that every package may have.
SHARED_MODULE_NAMES = frozenset({"__init__", "__main__", "service", "repository", "types", "errors", "factory"})

# What a function begins with: a verb, or a predicate.
PREDICATES = frozenset(
    {"is", "are", "has", "have", "can", "needs", "may", "accepts", "affects", "contains", "covers", "ends", "equals"}
    | {"exceeds", "exists", "includes", "repeats", "starts"}
)
VERBS = frozenset((Path(__file__).with_name("verbs.txt")).read_text().split())
CONVERSION = re.compile(r"_*\w+_(from|to)_\w+|_*(from|to|as|on|with|without)_\w+")


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def faults_of(name: str) -> list[str]:
    """Why a name is refused; nothing for a good one."""
    words, bare = words_of(name.replace("wall_clock", "").replace("WALL_CLOCK", "")), name.strip("_").lower()
    faults = [f"holds {word!r}" for word in words if word in FORBIDDEN_WORDS]
    faults += [f"begins with {prefix!r}" for prefix in FORBIDDEN_PREFIXES if bare.startswith(prefix)]
    return faults + (["says nothing"] if bare in FORBIDDEN_NAMES else [])


def is_verb_first(name: str) -> bool:
    first = words_of(name)[0]
    return first in VERBS or first in PREDICATES or CONVERSION.fullmatch(name) is not None
