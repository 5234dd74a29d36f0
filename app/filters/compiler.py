"""Compilation of a filter to a jsonb containment and a jsonpath predicate, which statements bind as typed values."""

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from app.filters import predicates
from app.filters.parser import EXPIRY, And, Condition, FilterNode, Not, Or, parse_filter
from app.filters.values import Loc, parse_instant

# Maximum number of lookups. Every search tries each lookup on a sample of rows.
MAX_LOOKUPS = 4
# Cost of a pattern, and of any other reference to a value. A pattern reads the whole value.
PATTERN_WEIGHT, REFERENCE_WEIGHT = 10.0, 0.2


@dataclass(frozen=True, slots=True)
class CompiledFilter:
    """Metadata filter in the form that the database evaluates.

    A row passes if both ``metadata @> contains`` and ``metadata @@ path`` are true. A part that is None passes every
    row.

    Attributes:
        contains: Containment to bind as jsonb. It is compared with the output of ``build_filter_metadata``.
        path: Predicate to bind as jsonpath, in strict mode.
        lookups: Conditions that every passing row fulfils, for an index lookup. They do not restrict the rows further.
            Each has a ``path`` of keys, and a scalar ``equal`` or inclusive bounds ``low`` and ``high``. A bound is a
            number or an instant. The enforced filter adds no lookup, because every row of its knowledge base fulfils
            it.
    """

    contains: dict[str, object] | None = None
    path: str | None = None
    lookups: list[dict[str, object]] | None = None

    @property
    def sql_params(self) -> tuple[str | None, str | None, str | None]:
        """``contains``, ``path`` and ``lookups`` as parameters of the driver: jsonb, jsonpath and jsonb."""
        contains, lookups = (None if part is None else json.dumps(part) for part in (self.contains, self.lookups))
        return contains, self.path, lookups

    @property
    def weight(self) -> float:
        """Estimated work of the filter for one row. The row's size does not count, and a containment costs nothing."""
        if self.path is None:
            return 0.0
        return PATTERN_WEIGHT * self.path.count(" like_regex ") + REFERENCE_WEIGHT * self.path.count("$")

    @property
    def is_selective(self) -> bool:
        """Whether the filter can exclude rows."""
        return self.contains is not None or self.path is not None

    def exclude_expired(self, now: datetime) -> Self:
        """Return a copy that also excludes the rows of expired documents.

        Rows that were written before rows carried ``$expires_at`` count as not expired.

        Args:
            now: Time at which a document has to be unexpired.
        """
        moment = parse_instant(now.isoformat())
        assert moment is not None  # every datetime is an ISO-8601 date
        expired = Condition(predicates.format_date_range((EXPIRY,), "<=", moment))
        return replace(
            self, path=f"{self.path or 'strict'} {'&& ' if self.path else ''}{_render(expired, negated=True)}"
        )


def compile_filter(
    expression: Mapping[str, object] | None,
    *,
    loc: Loc = ("filter",),
    enforced_filter: Mapping[str, object] | None = None,
    excluded_names: Set[str] = frozenset(),
) -> CompiledFilter:
    """Check a filter and compile it.

    Args:
        expression: Filter of the caller. None and an empty object pass every row.
        loc: Location of the filter in the request, for error messages.
        enforced_filter: Filter of the service that every row must match too. It does not count towards the limits of
            the caller.
        excluded_names: Reserved names that the caller's filter may not use, because the rows do not have them. A
            condition that such a name is missing would match every row.

    Returns:
        The compiled filter.

    Raises:
        InvalidInputError: The filter is invalid or exceeds a limit. ``loc`` points to the faulty part.
    """
    has_filter = expression is not None and not (isinstance(expression, Mapping) and not expression)
    parts = _flatten_conjuncts(parse_filter(expression, loc=loc, excluded_names=excluded_names)) if has_filter else []
    lookups = _select_lookups(parts)
    parts += _flatten_conjuncts(parse_filter(enforced_filter, loc=("guard",))) if enforced_filter else []
    contains: dict[str, object] = {}
    remaining = [part for part in parts if not _try_merge_containment(contains, part)]
    path = " && ".join(_render(part, negated=False) for part in remaining)
    return CompiledFilter(contains=contains or None, path=f"strict {path}" if path else None, lookups=lookups or None)


def _flatten_conjuncts(node: FilterNode) -> list[FilterNode]:
    return [leaf for part in node.parts for leaf in _flatten_conjuncts(part)] if isinstance(node, And) else [node]


def _try_merge_containment(contains: dict[str, object], node: FilterNode) -> bool:
    """Merge the node into the containment; return False if it has no containment or contradicts a value there."""
    if not isinstance(node, Condition) or node.contains is None:
        return False
    target, source = contains, node.contains
    while True:
        ((key, value),) = source.items()
        if key not in target:
            target[key] = value
            return True
        present = target[key]
        if not isinstance(value, dict) or not isinstance(present, dict):
            return False
        target, source = present, value


def _select_lookups(conjuncts: Sequence[FilterNode]) -> list[dict[str, object]]:
    """Return at most ``MAX_LOOKUPS`` lookups, one for each path.

    Equalities come first, then ranges with two bounds, then ranges with one bound, then equalities with true or false.
    """
    lookups: dict[tuple[str, ...], dict[str, object]] = {}
    for node in conjuncts:
        if isinstance(node, Condition) and node.lookup is not None:
            lookup = lookups.setdefault(node.lookup.keys, {"path": list(node.lookup.keys)})
            bounds = {"low": node.lookup.low, "high": node.lookup.high, "equal": node.lookup.equal}
            lookup |= {name: bound for name, bound in bounds.items() if bound is not None and name not in lookup}
    return sorted(lookups.values(), key=_estimate_selectivity, reverse=True)[:MAX_LOOKUPS]


def _estimate_selectivity(lookup: Mapping[str, object]) -> int:
    """Estimate the selectivity of a lookup by its kind; a higher number excludes more rows."""
    if "equal" in lookup:
        return 0 if isinstance(lookup["equal"], bool) else 3
    return len(lookup.keys() & {"low", "high"})


def _render(node: FilterNode, *, negated: bool) -> str:
    # Negation moves down to the single conditions, because unknown and false differ only there.
    # This makes "not" the exact complement. Above the conditions, && and || combine only true and false.
    match node:
        case Condition():
            return f"(!({node.path}) || ({node.path}) is unknown)" if negated else f"({node.path})"
        case Not():
            return _render(node.part, negated=not negated)
        case And() | Or():
            operator = " || " if isinstance(node, And) == negated else " && "
            return "(" + operator.join(_render(part, negated=negated) for part in node.parts) + ")"
