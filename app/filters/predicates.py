"""Single conditions as jsonpath text, for strict mode: a path that does not exist makes a predicate unknown."""

import json
import re
from collections.abc import Sequence

from app.filters.values import INSTANTS, Scalar, to_decimal

NEVER = "1 == 0"
# What means something in a pattern.
_SPECIAL = re.compile(r"[.\\+*?()\[\]{}|^$]")
# Below this a chain of comparisons is as fast as a search tree.
_MAX_CHAIN_LENGTH = 4


def format_literal(value: Scalar) -> str:
    """A jsonpath literal; a string keeps its quotes and escapes (JSON's, which jsonpath shares)."""
    return json.dumps(value, ensure_ascii=False)


def format_path(keys: Sequence[str]) -> str:
    """The path to a value through objects alone."""
    return "$" + "".join(f".{format_literal(key)}" for key in keys)


def equals(keys: Sequence[str], value: Scalar) -> str:
    """The value itself is this scalar."""
    return f"{format_path(keys)} == {format_literal(value)}"


def exists(keys: Sequence[str]) -> str:
    """There is a value, null included."""
    return f"exists({format_path(keys)})"


def format_number_range(keys: Sequence[str], operator: str, bound: int | float) -> str:
    """A number on the right side of the bound; ``operator`` is jsonpath's."""
    return f"{format_path(keys)} {operator} {format_literal(bound)}"


def format_date_range(keys: Sequence[str], operator: str, bound: str) -> str:
    """A date on the right side of the bound, which is an instant."""
    return f"{format_path((INSTANTS, *keys))} {operator} {format_literal(bound)}"


def equals_any(keys: Sequence[str], values: Sequence[Scalar]) -> str:
    """The value itself, or an element of it where it is a list, is one of these scalars."""
    if not values:
        return NEVER
    condition = _format_any_condition(values)
    return f"exists({format_path(keys)} ? ({condition})) || {_format_element_condition(keys, condition)}"


def list_contains(keys: Sequence[str], value: Scalar) -> str:
    """A list with this scalar among its elements."""
    return _format_element_condition(keys, _format_any_condition((value,)))


def list_or_text_contains(keys: Sequence[str], text: str) -> str:
    """A list with this string among its elements, or a string with it inside; flag q takes the pattern literally."""
    return f'{list_contains(keys, text)} || {format_path(keys)} like_regex {format_literal(text)} flag "q"'


def starts_with(keys: Sequence[str], text: str) -> str:
    """A string that begins with this one."""
    return f"{format_path(keys)} starts with {format_literal(text)}"


def ends_with(keys: Sequence[str], text: str) -> str:
    """A string that ends with this one; flag q would take the anchor literally too."""
    pattern = _SPECIAL.sub(r"\\\g<0>", text) + "$"
    return f"{format_path(keys)} like_regex {format_literal(pattern)}"


def _format_element_condition(keys: Sequence[str], condition: str) -> str:
    # A filter drops elements of other types; a bare comparison would be unknown as soon as one of them is.
    return f"exists({format_path(keys)}[*] ? ({condition}))"


def _format_any_condition(values: Sequence[Scalar]) -> str:
    strings = sorted({value for value in values if isinstance(value, str)})
    numbers = {
        to_decimal(value): value for value in values if isinstance(value, int | float) and not isinstance(value, bool)
    }
    parts = [format_literal(value) for value in (None, True, False) if any(value is candidate for candidate in values)]
    conditions = [f"@ == {part}" for part in parts]
    conditions += _format_search("string", [format_literal(value) for value in strings])
    conditions += _format_search("number", [format_literal(numbers[number]) for number in sorted(numbers)])
    return " || ".join(conditions)


def _format_search(kind: str, literals: list[str]) -> list[str]:
    if len(literals) <= _MAX_CHAIN_LENGTH:
        return [f"@ == {value}" for value in literals]
    # Without the type, every comparison with a value of another type is unknown and cuts no branch off.
    return [f'(@.type() == "{kind}" && ({_format_search_tree(literals)}))']


def _format_search_tree(literals: list[str]) -> str:
    # A chain of a thousand comparisons takes 125 us a row, this 4; its equalities still serve a GIN index.
    if len(literals) <= _MAX_CHAIN_LENGTH:
        return " || ".join(f"@ == {value}" for value in literals)
    middle = len(literals) // 2
    pivot = literals[middle]
    below, above = _format_search_tree(literals[:middle]), _format_search_tree(literals[middle:])
    return f"(@ < {pivot} && ({below})) || (@ >= {pivot} && ({above}))"
