"""Parser of the filter language, from the caller's JSON to a checked tree of conditions."""

from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from app.errors import InvalidInputError
from app.filters import predicates
from app.filters.values import INSTANTS, Loc, Scalar, check_number, check_text, parse_instant

NODE = "$node"
SUSPICIOUS = "$suspicious"
# A chunk has a list of values for these names. Equality compares each element of the list.
MULTI_VALUED_NAMES = frozenset({NODE, SUSPICIOUS})
# Names that exist for chunks only, not for documents.
CHUNK_NAMES = frozenset({"$page", NODE, SUSPICIOUS})
RESERVED_NAMES = frozenset(
    {
        "$document_id",
        "$source",
        "$source_uri",
        "$source_created_at",
        "$media_type",
        "$title",
        "$created_at",
        "$dynamic",
        *CHUNK_NAMES,
    }
)
# Expiry time of a document. Rows carry it so that searches exclude documents that the sweep has not deleted yet.
# Callers cannot filter by this name.
EXPIRY = "$expires_at"

MAX_DEPTH = 8
MAX_CONDITIONS = 200
MAX_LIST_VALUES = 1000
MAX_TOTAL_LIST_VALUES = 2000
MAX_STRING_CHARACTERS = 4096
MAX_TOTAL_CHARACTERS = 65_536
MAX_KEY_CHARACTERS = 256
# A literal pattern of 256 characters compiles in 4 ms, a pattern of 4,096 in 2 s. A connection caches 32 patterns.
MAX_PATTERN_CHARACTERS = 256
MAX_PATTERNS = 16

_RANGE_OPERATORS = {"gte": ">=", "lte": "<=", "gt": ">", "lt": "<"}


@dataclass(frozen=True, slots=True)
class Lookup:
    """Condition on the value of a path, for an index lookup.

    Attributes:
        keys: Path of the value.
        low: Inclusive lower bound; None if there is none.
        high: Inclusive upper bound; None if there is none.
        equal: Scalar that the value equals; None if the condition is a range.
    """

    keys: tuple[str, ...]
    low: int | float | str | None = None
    high: int | float | str | None = None
    equal: Scalar = None


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a filter: a jsonpath predicate, and conditions that an index can check.

    Attributes:
        path: The predicate as jsonpath.
        contains: Equivalent containment (``@>``); None if no containment is equivalent.
        lookup: Weaker condition that every matching row fulfils; None if no lookup can replace a scan.
    """

    path: str
    contains: dict[str, object] | None = None
    lookup: Lookup | None = None


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction: all parts hold."""

    parts: tuple["FilterNode", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction: at least one part holds."""

    parts: tuple["FilterNode", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Negation: the part does not hold."""

    part: "FilterNode"


FilterNode = Condition | And | Or | Not


def parse_filter(expression: object, *, loc: Loc, excluded_names: Set[str] = frozenset()) -> FilterNode:
    """Parse a filter that is not empty, and return its tree. Refuse the reserved names in ``excluded_names``.

    Raises:
        InvalidInputError: The filter is invalid or exceeds a limit. ``loc`` points to the faulty part.
    """
    return _Parser(excluded_names).parse(expression, depth=1, loc=loc)


class _Parser:
    """Parser of one filter, with the counts for the limits that apply to the whole filter."""

    def __init__(self, excluded_names: Set[str]) -> None:
        self.excluded_names = excluded_names
        self.counts: Counter[str] = Counter()

    def parse(self, expression: object, *, depth: int, loc: Loc) -> FilterNode:
        entries = self._require_object(expression, "A filter must be a JSON object.", loc=loc)
        if not entries:
            raise InvalidInputError("A filter inside a filter may not be empty.", loc=loc)
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"A filter may nest at most {MAX_DEPTH} levels.", loc=loc)
        parts = tuple(self._parse_entry(key, value, depth=depth, loc=loc) for key, value in entries.items())
        return parts[0] if len(parts) == 1 else And(parts)

    def _parse_entry(self, key: str, value: object, *, depth: int, loc: Loc) -> FilterNode:
        self._count("conditions", 1, MAX_CONDITIONS, loc=loc)
        if key == "not":
            return Not(self.parse(value, depth=depth + 1, loc=(*loc, key)))
        if key in ("and", "or"):
            parts = self._parse_filters(value, depth=depth + 1, loc=(*loc, key))
            return And(parts) if key == "and" else Or(parts)
        # Only a checked key may become part of a location: a lone surrogate cannot be encoded in a response.
        keys = self._parse_keys(key, loc=loc)
        if keys[0] in self.excluded_names:
            raise InvalidInputError(
                f"{keys[0]} cannot be used here: only chunks have it. Remove this condition.", loc=(*loc, key)
            )
        return self._parse_condition(keys, value, depth=depth, loc=(*loc, key))

    def _parse_filters(self, value: object, *, depth: int, loc: Loc) -> tuple[FilterNode, ...]:
        if not isinstance(value, list | tuple) or not value:
            raise InvalidInputError('"and" and "or" take a list of filters, at least one.', loc=loc)
        return tuple(self.parse(part, depth=depth, loc=(*loc, index)) for index, part in enumerate(value))

    def _parse_condition(self, keys: tuple[str, ...], value: object, *, depth: int, loc: Loc) -> FilterNode:
        if isinstance(value, Mapping):
            return self._parse_operators(keys, value, depth=depth, loc=loc)
        if isinstance(value, list | tuple):
            return Condition(predicates.equals_any(keys, self._parse_list(value, loc=loc)))
        scalar = self._parse_scalar(value, loc=loc)
        if keys[0] in MULTI_VALUED_NAMES:
            return Condition(predicates.equals_any(keys, [scalar]))
        lookup = None if scalar is None else Lookup(keys, equal=scalar)
        return Condition(predicates.equals(keys, scalar), _build_containment(keys, scalar), lookup)

    def _parse_operators(self, keys: tuple[str, ...], value: object, *, depth: int, loc: Loc) -> FilterNode:
        operators = self._require_object(value, "Operators must be a JSON object.", loc=loc)
        if not operators:
            raise InvalidInputError("An object of operators may not be empty.", loc=loc)
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"A filter may nest at most {MAX_DEPTH} levels.", loc=loc)
        # The key counted as one condition. Each operator after the first one counts as another condition.
        self._count("conditions", len(operators) - 1, MAX_CONDITIONS, loc=loc)
        parts = tuple(self._parse_operator(keys, name, operators[name], depth=depth, loc=loc) for name in operators)
        return parts[0] if len(parts) == 1 else And(parts)

    def _parse_operator(self, keys: tuple[str, ...], name: str, operand: object, *, depth: int, loc: Loc) -> FilterNode:
        if name == "not":
            return Not(self._parse_condition(keys, operand, depth=depth + 1, loc=(*loc, name)))
        if name in _RANGE_OPERATORS:
            return self._parse_range(keys, _RANGE_OPERATORS[name], operand, loc=(*loc, name))
        handlers: dict[str, Callable[..., FilterNode]] = {
            "exists": self._parse_exists,
            "contains": self._parse_contains,
            "starts_with": self._parse_starts_with,
            "ends_with": self._parse_ends_with,
        }
        if name not in handlers:
            operator_names = ", ".join((*_RANGE_OPERATORS, "not", *handlers))
            raise InvalidInputError(
                f"Unknown operator. Use one of {operator_names}. Write a nested key with a dot.", loc=loc
            )
        return handlers[name](keys, operand, loc=(*loc, name))

    def _parse_exists(self, keys: tuple[str, ...], operand: object, *, loc: Loc) -> FilterNode:
        if not isinstance(operand, bool):
            raise InvalidInputError('"exists" takes true or false.', loc=loc)
        condition = Condition(predicates.exists(keys))
        return condition if operand else Not(condition)

    def _parse_contains(self, keys: tuple[str, ...], operand: object, *, loc: Loc) -> FilterNode:
        scalar = self._parse_scalar(operand, loc=loc)
        if not isinstance(scalar, str):
            return Condition(predicates.list_contains(keys, scalar), _build_containment(keys, [scalar]))
        self._check_pattern("contains", scalar, loc=loc)
        return Condition(predicates.list_or_text_contains(keys, scalar))

    def _parse_starts_with(self, keys: tuple[str, ...], operand: object, *, loc: Loc) -> FilterNode:
        return Condition(predicates.starts_with(keys, self._parse_string("starts_with", operand, loc=loc)))

    def _parse_ends_with(self, keys: tuple[str, ...], operand: object, *, loc: Loc) -> FilterNode:
        text = self._parse_string("ends_with", operand, loc=loc)
        self._check_pattern("ends_with", text, loc=loc)
        return Condition(predicates.ends_with(keys, text))

    def _check_pattern(self, operator: str, text: str, *, loc: Loc) -> None:
        if len(text) > MAX_PATTERN_CHARACTERS:
            raise InvalidInputError(f'"{operator}" takes at most {MAX_PATTERN_CHARACTERS} characters.', loc=loc)
        self._count('strings in "contains" and "ends_with"', 1, MAX_PATTERNS, loc=loc)

    def _parse_string(self, operator: str, operand: object, *, loc: Loc) -> str:
        scalar = self._parse_scalar(operand, loc=loc)
        if not isinstance(scalar, str):
            raise InvalidInputError(f'"{operator}" takes a string.', loc=loc)
        return scalar

    def _parse_range(self, keys: tuple[str, ...], operator: str, operand: object, *, loc: Loc) -> FilterNode:
        bound = self._parse_scalar(operand, loc=loc)
        if isinstance(bound, str):
            start = parse_instant(bound)
            if start is not None:
                return Condition(
                    predicates.format_date_range(keys, operator, start),
                    lookup=_build_range_lookup((INSTANTS, *keys), operator, start),
                )
        elif bound is not None and not isinstance(bound, bool):
            return Condition(
                predicates.format_number_range(keys, operator, bound), lookup=_build_range_lookup(keys, operator, bound)
            )
        raise InvalidInputError("A range takes a number or an ISO-8601 date.", loc=loc)

    def _parse_list(self, values: list[object] | tuple[object, ...], *, loc: Loc) -> list[Scalar]:
        if len(values) > MAX_LIST_VALUES:
            raise InvalidInputError(f"A list may have at most {MAX_LIST_VALUES} values.", loc=loc)
        self._count("values in lists", len(values), MAX_TOTAL_LIST_VALUES, loc=loc)
        return [self._parse_scalar(value, loc=(*loc, index)) for index, value in enumerate(values)]

    def _parse_scalar(self, value: object, *, loc: Loc) -> Scalar:
        if isinstance(value, str):
            self._check_text(value, MAX_STRING_CHARACTERS, "A string", loc=loc)
            return value
        if isinstance(value, int | float):
            check_number(value, loc=loc)
            return value
        if value is None:
            return None
        raise InvalidInputError("A value must be a string, a number, true, false or null.", loc=loc)

    def _parse_keys(self, key: str, *, loc: Loc) -> tuple[str, ...]:
        self._check_text(key, MAX_KEY_CHARACTERS, "A key", loc=loc)
        keys = _split_key(key, loc=loc)
        if "" in keys:
            raise InvalidInputError("A key may not be empty.", loc=loc)
        if keys[0].startswith("$") and (len(keys) > 1 or keys[0] not in RESERVED_NAMES):
            raise InvalidInputError(f"Unknown reserved name. Use one of {', '.join(sorted(RESERVED_NAMES))}.", loc=loc)
        return keys

    def _require_object(self, value: object, message: str, *, loc: Loc) -> Mapping[str, object]:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise InvalidInputError(message, loc=loc)
        return value

    def _check_text(self, text: str, limit: int, label: str, *, loc: Loc) -> None:
        if len(text) > limit:
            raise InvalidInputError(f"{label} may have at most {limit} characters.", loc=loc)
        self._count("characters", len(text), MAX_TOTAL_CHARACTERS, loc=loc)
        check_text(text, loc=loc)

    def _count(self, unit: str, amount: int, limit: int, *, loc: Loc) -> None:
        self.counts[unit] += amount
        if self.counts[unit] > limit:
            raise InvalidInputError(f"A filter may have at most {limit} {unit}.", loc=loc)


def _split_key(key: str, *, loc: Loc) -> tuple[str, ...]:
    keys, characters = [""], iter(key)
    for character in characters:
        if character == ".":
            keys.append("")
        elif character == "\\":
            escaped = next(characters, None)
            if escaped is None:
                raise InvalidInputError("A key may not end in a single backslash.", loc=loc)
            keys[-1] += escaped
        else:
            keys[-1] += character
    return tuple(keys)


def _build_range_lookup(keys: tuple[str, ...], operator: str, bound: int | float | str) -> Lookup:
    return Lookup(keys, low=bound) if operator.startswith(">") else Lookup(keys, high=bound)


def _build_containment(keys: tuple[str, ...], value: object) -> dict[str, object]:
    for key in reversed(keys[1:]):
        value = {key: value}
    return {keys[0]: value}
