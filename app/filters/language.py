"""The filter language: from a caller's JSON to a checked tree of conditions."""

from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from app.errors import InvalidInput
from app.filters import predicates
from app.filters.values import INSTANTS, Loc, Scalar, check_number, check_text, instant

NODE = "$node"
SUSPICIOUS = "$suspicious"
# A chunk has a list of them, and equality asks for one of it.
LISTED_NAMES = frozenset({NODE, SUSPICIOUS})
# What no document has.
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
# When a document ends. Rows have it for what follows a sweep that is late; no filter of a caller's reaches it.
EXPIRY = "$expires_at"

MAX_DEPTH = 8
MAX_CONDITIONS = 200
MAX_LIST = 1000
MAX_LISTED = 2000
MAX_STRING = 4096
MAX_TEXT = 65_536
MAX_KEY = 256
# A literal pattern of 256 characters compiles in 4 ms, one of 4,096 in 2 s; a connection keeps 32 compiled ones.
MAX_PATTERN = 256
MAX_PATTERNS = 16

_RANGES = {"gte": ">=", "lte": "<=", "gt": ">", "lt": "<"}


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a path's value is: ``equal``, or between two bounds, both included, of which None is none."""

    keys: tuple[str, ...]
    low: int | float | str | None = None
    high: int | float | str | None = None
    equal: Scalar = None


@dataclass(frozen=True, slots=True)
class Condition:
    """One predicate; ``contains`` is the containment that says exactly the same, where there is one.

    Of whatever passes ``lookup`` is true, where there is one.
    """

    path: str
    contains: dict[str, object] | None = None
    lookup: Lookup | None = None


@dataclass(frozen=True, slots=True)
class Every:
    """All parts hold."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one part holds."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """The part does not hold."""

    part: "Node"


Node = Condition | Every | Either | Negation


def parse_filter(expression: object, *, loc: Loc, without: Set[str] = frozenset()) -> Node:
    """The tree of a filter that is not empty, ``without`` these reserved names.

    Raises InvalidInput with the loc of what is wrong.
    """
    return _Parser(without).filter(expression, depth=1, loc=loc)


class _Parser:
    """One pass over one filter; the limits that span all of it are counted here."""

    def __init__(self, without: Set[str]) -> None:
        self.without = without
        self.spent: Counter[str] = Counter()

    def filter(self, expression: object, *, depth: int, loc: Loc) -> Node:
        entries = self._object(expression, "A filter must be a JSON object.", loc=loc)
        if not entries:
            raise InvalidInput("A filter inside a filter may not be empty.", loc=loc)
        if depth > MAX_DEPTH:
            raise InvalidInput(f"A filter may nest at most {MAX_DEPTH} levels.", loc=loc)
        parts = tuple(self._entry(key, value, depth=depth, loc=loc) for key, value in entries.items())
        return parts[0] if len(parts) == 1 else Every(parts)

    def _entry(self, key: str, value: object, *, depth: int, loc: Loc) -> Node:
        self._spend("conditions", 1, MAX_CONDITIONS, loc=loc)
        if key == "not":
            return Negation(self.filter(value, depth=depth + 1, loc=(*loc, key)))
        if key in ("and", "or"):
            parts = self._filters(value, depth=depth + 1, loc=(*loc, key))
            return Every(parts) if key == "and" else Either(parts)
        # Only a checked key may become part of a loc: a door could not encode a lone surrogate in its answer.
        keys = self._keys(key, loc=loc)
        if keys[0] in self.without:
            raise InvalidInput(f"{keys[0]} cannot be asked for here: no document has it.", loc=(*loc, key))
        return self._condition(keys, value, depth=depth, loc=(*loc, key))

    def _filters(self, value: object, *, depth: int, loc: Loc) -> tuple[Node, ...]:
        if not isinstance(value, list | tuple) or not value:
            raise InvalidInput('"and" and "or" take a list of filters, at least one.', loc=loc)
        return tuple(self.filter(part, depth=depth, loc=(*loc, index)) for index, part in enumerate(value))

    def _condition(self, keys: tuple[str, ...], value: object, *, depth: int, loc: Loc) -> Node:
        if isinstance(value, Mapping):
            return self._operators(keys, value, depth=depth, loc=loc)
        if isinstance(value, list | tuple):
            return Condition(predicates.any_of(keys, self._list(value, loc=loc)))
        scalar = self._scalar(value, loc=loc)
        if keys[0] in LISTED_NAMES:
            return Condition(predicates.any_of(keys, [scalar]))
        lookup = None if scalar is None else Lookup(keys, equal=scalar)
        return Condition(predicates.equals(keys, scalar), _nested(keys, scalar), lookup)

    def _operators(self, keys: tuple[str, ...], value: object, *, depth: int, loc: Loc) -> Node:
        operators = self._object(value, "Operators must be a JSON object.", loc=loc)
        if not operators:
            raise InvalidInput("An object of operators may not be empty.", loc=loc)
        if depth > MAX_DEPTH:
            raise InvalidInput(f"A filter may nest at most {MAX_DEPTH} levels.", loc=loc)
        # The key was counted already: one operator is one condition, each further one another.
        self._spend("conditions", len(operators) - 1, MAX_CONDITIONS, loc=loc)
        parts = tuple(self._operator(keys, name, operators[name], depth=depth, loc=loc) for name in operators)
        return parts[0] if len(parts) == 1 else Every(parts)

    def _operator(self, keys: tuple[str, ...], name: str, operand: object, *, depth: int, loc: Loc) -> Node:
        if name == "not":
            return Negation(self._condition(keys, operand, depth=depth + 1, loc=(*loc, name)))
        if name in _RANGES:
            return self._range(keys, _RANGES[name], operand, loc=(*loc, name))
        simple: dict[str, Callable[..., Node]] = {
            "exists": self._exists,
            "contains": self._contains,
            "starts_with": self._starts_with,
            "ends_with": self._ends_with,
        }
        if name not in simple:
            known = ", ".join((*_RANGES, "not", *simple))
            raise InvalidInput(f"Unknown operator; known are {known}. A nested key is written with a dot.", loc=loc)
        return simple[name](keys, operand, loc=(*loc, name))

    def _exists(self, keys: tuple[str, ...], operand: object, *, loc: Loc) -> Node:
        if not isinstance(operand, bool):
            raise InvalidInput('"exists" takes true or false.', loc=loc)
        condition = Condition(predicates.exists(keys))
        return condition if operand else Negation(condition)

    def _contains(self, keys: tuple[str, ...], operand: object, *, loc: Loc) -> Node:
        scalar = self._scalar(operand, loc=loc)
        if not isinstance(scalar, str):
            return Condition(predicates.list_contains(keys, scalar), _nested(keys, [scalar]))
        self._pattern("contains", scalar, loc=loc)
        return Condition(predicates.list_or_text_contains(keys, scalar))

    def _starts_with(self, keys: tuple[str, ...], operand: object, *, loc: Loc) -> Node:
        return Condition(predicates.starts_with(keys, self._string("starts_with", operand, loc=loc)))

    def _ends_with(self, keys: tuple[str, ...], operand: object, *, loc: Loc) -> Node:
        text = self._string("ends_with", operand, loc=loc)
        self._pattern("ends_with", text, loc=loc)
        return Condition(predicates.ends_with(keys, text))

    def _pattern(self, operator: str, text: str, *, loc: Loc) -> None:
        if len(text) > MAX_PATTERN:
            raise InvalidInput(f'"{operator}" takes at most {MAX_PATTERN} characters.', loc=loc)
        self._spend('strings in "contains" and "ends_with"', 1, MAX_PATTERNS, loc=loc)

    def _string(self, operator: str, operand: object, *, loc: Loc) -> str:
        scalar = self._scalar(operand, loc=loc)
        if not isinstance(scalar, str):
            raise InvalidInput(f'"{operator}" takes a string.', loc=loc)
        return scalar

    def _range(self, keys: tuple[str, ...], operator: str, operand: object, *, loc: Loc) -> Node:
        bound = self._scalar(operand, loc=loc)
        if isinstance(bound, str):
            start = instant(bound)
            if start is not None:
                return Condition(
                    predicates.date_range(keys, operator, start), lookup=_bounded((INSTANTS, *keys), operator, start)
                )
        elif bound is not None and not isinstance(bound, bool):
            return Condition(predicates.number_range(keys, operator, bound), lookup=_bounded(keys, operator, bound))
        raise InvalidInput("A range takes a number or an ISO-8601 date.", loc=loc)

    def _list(self, values: list[object] | tuple[object, ...], *, loc: Loc) -> list[Scalar]:
        if len(values) > MAX_LIST:
            raise InvalidInput(f"A list may have at most {MAX_LIST} values.", loc=loc)
        self._spend("values in lists", len(values), MAX_LISTED, loc=loc)
        return [self._scalar(value, loc=(*loc, index)) for index, value in enumerate(values)]

    def _scalar(self, value: object, *, loc: Loc) -> Scalar:
        if isinstance(value, str):
            self._text(value, MAX_STRING, "A string", loc=loc)
            return value
        if isinstance(value, int | float):
            check_number(value, loc=loc)
            return value
        if value is None:
            return None
        raise InvalidInput("A value must be a string, a number, true, false or null.", loc=loc)

    def _keys(self, key: str, *, loc: Loc) -> tuple[str, ...]:
        self._text(key, MAX_KEY, "A key", loc=loc)
        keys = _split(key, loc=loc)
        if "" in keys:
            raise InvalidInput("A key may not be empty.", loc=loc)
        if keys[0].startswith("$") and (len(keys) > 1 or keys[0] not in RESERVED_NAMES):
            raise InvalidInput(f"Unknown reserved name; known are {', '.join(sorted(RESERVED_NAMES))}.", loc=loc)
        return keys

    def _object(self, value: object, message: str, *, loc: Loc) -> Mapping[str, object]:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise InvalidInput(message, loc=loc)
        return value

    def _text(self, text: str, limit: int, what: str, *, loc: Loc) -> None:
        if len(text) > limit:
            raise InvalidInput(f"{what} may have at most {limit} characters.", loc=loc)
        self._spend("characters", len(text), MAX_TEXT, loc=loc)
        check_text(text, loc=loc)

    def _spend(self, what: str, amount: int, limit: int, *, loc: Loc) -> None:
        self.spent[what] += amount
        if self.spent[what] > limit:
            raise InvalidInput(f"A filter may have at most {limit} {what}.", loc=loc)


def _split(key: str, *, loc: Loc) -> tuple[str, ...]:
    keys, characters = [""], iter(key)
    for character in characters:
        if character == ".":
            keys.append("")
        elif character == "\\":
            escaped = next(characters, None)
            if escaped is None:
                raise InvalidInput("A key may not end in a single backslash.", loc=loc)
            keys[-1] += escaped
        else:
            keys[-1] += character
    return tuple(keys)


def _bounded(keys: tuple[str, ...], operator: str, bound: int | float | str) -> Lookup:
    return Lookup(keys, low=bound) if operator.startswith(">") else Lookup(keys, high=bound)


def _nested(keys: tuple[str, ...], value: object) -> dict[str, object]:
    for key in reversed(keys[1:]):
        value = {key: value}
    return {keys[0]: value}
