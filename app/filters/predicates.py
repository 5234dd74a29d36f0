"""Conditions as jsonpath text for strict mode, in which a path that does not exist makes a predicate unknown."""

import json
import re
from collections.abc import Sequence

from app.filters.values import INSTANTS, Scalar, to_decimal

NEVER = "1 == 0"
# Characters with a special meaning in a pattern.
_SPECIAL = re.compile(r"[.\\+*?()\[\]{}|^$]")
# Up to this length, a chain of comparisons is as fast as a search tree.
_MAX_CHAIN_LENGTH = 4


def format_literal(value: Scalar) -> str:
    """Format a scalar as a jsonpath literal. The quotes and escapes of JSON strings are also valid in jsonpath."""
    return json.dumps(value, ensure_ascii=False)


def format_path(keys: Sequence[str]) -> str:
    """Format the path to a value. The path goes through objects only, not into lists."""
    return "$" + "".join(f".{format_literal(key)}" for key in keys)


def equals(keys: Sequence[str], value: Scalar) -> str:
    """Format the condition that the value equals a scalar."""
    return f"{format_path(keys)} == {format_literal(value)}"


def exists(keys: Sequence[str]) -> str:
    """Format the condition that the value exists; null counts as existing."""
    return f"exists({format_path(keys)})"


def format_number_range(keys: Sequence[str], operator: str, bound: int | float) -> str:
    """Format the comparison of the value with a number; ``operator`` is a jsonpath operator."""
    return f"{format_path(keys)} {operator} {format_literal(bound)}"


def format_date_range(keys: Sequence[str], operator: str, bound: str) -> str:
    """Format the comparison of a date with an instant; ``operator`` is a jsonpath operator."""
    return f"{format_path((INSTANTS, *keys))} {operator} {format_literal(bound)}"


def equals_any(keys: Sequence[str], values: Sequence[Scalar]) -> str:
    """Format the condition that the value, or an element of a list value, equals one of the scalars."""
    if not values:
        return NEVER
    condition = _format_any_condition(values)
    return f"exists({format_path(keys)} ? ({condition})) || {_format_element_condition(keys, condition)}"


def list_contains(keys: Sequence[str], value: Scalar) -> str:
    """Format the condition that the value is a list with this scalar among its elements."""
    return _format_element_condition(keys, _format_any_condition((value,)))


def list_or_text_contains(keys: Sequence[str], text: str) -> str:
    """Format the condition that the value is a list with this string, or a string that contains it.

    Flag q makes jsonpath read the pattern literally.
    """
    return f'{list_contains(keys, text)} || {format_path(keys)} like_regex {format_literal(text)} flag "q"'


def starts_with(keys: Sequence[str], text: str) -> str:
    """Format the condition that the value is a string that begins with ``text``."""
    return f"{format_path(keys)} starts with {format_literal(text)}"


def ends_with(keys: Sequence[str], text: str) -> str:
    """Format the condition that the value is a string that ends with ``text``.

    Flag q is not used, because it would read the anchor of the pattern literally too.
    """
    pattern = _SPECIAL.sub(r"\\\g<0>", text) + "$"
    return f"{format_path(keys)} like_regex {format_literal(pattern)}"


def _format_element_condition(keys: Sequence[str], condition: str) -> str:
    # A filter expression skips elements of other types. A bare comparison would be unknown if one element has another
    # type.
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
    # Without the type check, each comparison with a value of another type is unknown and prunes no branch of the tree.
    return [f'(@.type() == "{kind}" && ({_format_search_tree(literals)}))']


def _format_search_tree(literals: list[str]) -> str:
    # A chain of a thousand comparisons takes 125 us for each row; a search tree takes 4 us. The equalities in the tree
    # still use a GIN index.
    if len(literals) <= _MAX_CHAIN_LENGTH:
        return " || ".join(f"@ == {value}" for value in literals)
    middle = len(literals) // 2
    pivot = literals[middle]
    below, above = _format_search_tree(literals[:middle]), _format_search_tree(literals[middle:])
    return f"(@ < {pivot} && ({below})) || (@ >= {pivot} && ({above}))"
