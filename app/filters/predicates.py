"""Single conditions as jsonpath text, for strict mode: a path that does not exist makes a predicate unknown."""

import json
import re
from collections.abc import Sequence

from app.filters.values import INSTANTS, Scalar, exact

NEVER = "1 == 0"
# What means something in a pattern.
_SPECIAL = re.compile(r"[.\\+*?()\[\]{}|^$]")
# Below this a chain of comparisons is as fast as a search tree.
_CHAIN = 4


def literal(value: Scalar) -> str:
    """A jsonpath literal; a string keeps its quotes and escapes (JSON's, which jsonpath shares)."""
    return json.dumps(value, ensure_ascii=False)


def member(keys: Sequence[str]) -> str:
    """The path to a value through objects alone."""
    return "$" + "".join(f".{literal(key)}" for key in keys)


def equals(keys: Sequence[str], value: Scalar) -> str:
    """The value itself is this scalar."""
    return f"{member(keys)} == {literal(value)}"


def exists(keys: Sequence[str]) -> str:
    """There is a value, null included."""
    return f"exists({member(keys)})"


def number_range(keys: Sequence[str], operator: str, bound: int | float) -> str:
    """A number on the right side of the bound; ``operator`` is jsonpath's."""
    return f"{member(keys)} {operator} {literal(bound)}"


def date_range(keys: Sequence[str], operator: str, bound: str) -> str:
    """A date on the right side of the bound, which is an instant."""
    return f"{member((INSTANTS, *keys))} {operator} {literal(bound)}"


def any_of(keys: Sequence[str], values: Sequence[Scalar]) -> str:
    """The value itself, or an element of it where it is a list, is one of these scalars."""
    if not values:
        return NEVER
    condition = _one_of(values)
    return f"exists({member(keys)} ? ({condition})) || {_element(keys, condition)}"


def list_contains(keys: Sequence[str], value: Scalar) -> str:
    """A list with this scalar among its elements."""
    return _element(keys, _one_of((value,)))


def list_or_text_contains(keys: Sequence[str], text: str) -> str:
    """A list with this string among its elements, or a string with it inside; flag q takes the pattern literally."""
    return f'{list_contains(keys, text)} || {member(keys)} like_regex {literal(text)} flag "q"'


def starts_with(keys: Sequence[str], text: str) -> str:
    """A string that begins with this one."""
    return f"{member(keys)} starts with {literal(text)}"


def ends_with(keys: Sequence[str], text: str) -> str:
    """A string that ends with this one; flag q would take the anchor literally too."""
    pattern = _SPECIAL.sub(r"\\\g<0>", text) + "$"
    return f"{member(keys)} like_regex {literal(pattern)}"


def _element(keys: Sequence[str], condition: str) -> str:
    # A filter drops elements of other types; a bare comparison would be unknown as soon as one of them is.
    return f"exists({member(keys)}[*] ? ({condition}))"


def _one_of(values: Sequence[Scalar]) -> str:
    strings = sorted({value for value in values if isinstance(value, str)})
    numbers = {
        exact(value): value for value in values if isinstance(value, int | float) and not isinstance(value, bool)
    }
    parts = [literal(value) for value in (None, True, False) if any(value is given for given in values)]
    conditions = [f"@ == {part}" for part in parts]
    conditions += _search("string", [literal(value) for value in strings])
    conditions += _search("number", [literal(numbers[number]) for number in sorted(numbers)])
    return " || ".join(conditions)


def _search(kind: str, literals: list[str]) -> list[str]:
    if len(literals) <= _CHAIN:
        return [f"@ == {value}" for value in literals]
    # Without the type, every comparison with a value of another type is unknown and cuts no branch off.
    return [f'(@.type() == "{kind}" && ({_tree(literals)}))']


def _tree(literals: list[str]) -> str:
    # A chain of a thousand comparisons takes 125 us a row, this 4; its equalities still serve a GIN index.
    if len(literals) <= _CHAIN:
        return " || ".join(f"@ == {value}" for value in literals)
    middle = len(literals) // 2
    pivot = literals[middle]
    return f"(@ < {pivot} && ({_tree(literals[:middle])})) || (@ >= {pivot} && ({_tree(literals[middle:])}))"
