"""Aliases: names that other systems use for settings of searches, and their translation to Carrel's names."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import isclose
from typing import Any

from pydantic import ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from app.api.v1.schemas import StrictRequestModel
from app.retrieval.strategies import STRATEGIES, STRATEGY_ALIASES, load_strategies

OPTIONS_FIELD = "strategy_options"


@dataclass(frozen=True, slots=True)
class OptionAlias:
    """Name of a setting in another system.

    Attributes:
        name: The name in the other system.
        system: The other system.
        target: Field of a request that has the setting; ``strategy_options`` for an option of the strategy. None if the
            setting has only one possible value in Carrel, which is then left out.
        option: Name of the option, if ``target`` is ``strategy_options``.
        values: Values of the other system, in lower case, and Carrel's values for them.
        has_other_values: Whether values that ``values`` lacks are passed on unchanged; if not, they are invalid.
        is_complement: Whether Carrel's value is 1 minus the value of the other system.
        is_in_options: Whether the name is also accepted within ``strategy_options``.
    """

    name: str
    system: str
    target: str | None
    option: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    has_other_values: bool = False
    is_complement: bool = False
    is_in_options: bool = False

    @property
    def main_name(self) -> str | None:
        """Carrel's name; None if there is none."""
        return self.option or self.target

    def translate(self, value: Any) -> Any:
        """Return Carrel's value. Raises ValueError if Carrel has none."""
        if value is None:
            return None
        if self.is_complement:
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ValueError(f"{self.name} must be a number from 0 to 1")
            return round(1 - value, 12)
        if not self.values:
            return value
        translated = self.values.get(value.lower()) if isinstance(value, str) else None
        if translated is None and not self.has_other_values:
            raise ValueError(f"Carrel has no such {self.name}: use one of {', '.join(self.values)}")
        return value if translated is None else translated


ALIASES = (
    OptionAlias("query_transformers", "Orchid", "transformers"),
    OptionAlias("metadata_filters", "Orchid", "filter"),
    OptionAlias("k", "Orchid", "top_k"),
    OptionAlias("retrieval_timeout", "Orchid", "timeout_seconds", is_in_options=True),
    OptionAlias("sparse_weight", "Orchid", OPTIONS_FIELD, "dense_weight", is_complement=True, is_in_options=True),
    OptionAlias(
        "fusion",
        "Orchid",
        OPTIONS_FIELD,
        "fusion",
        values={"linear": "weighted"},
        has_other_values=True,
        is_in_options=True,
    ),
    OptionAlias("lane_multiplier", "Orchid", OPTIONS_FIELD, "candidate_multiplier", is_in_options=True),
    OptionAlias("sparse_encoder", "Orchid", None, values={"bm25": "bm25"}, is_in_options=True),
    OptionAlias("similarity", "AgentScope", None, values={"cosine": "cosine"}, is_in_options=True),
    OptionAlias("distance", "AgentScope", None, values={"cosine": "cosine"}, is_in_options=True),
    OptionAlias("method", "Workglow", "strategy", values={"similarity": "dense", "hybrid": "hybrid"}),
    OptionAlias("topK", "Workglow", "top_k"),
    OptionAlias("scoreThreshold", "Workglow", "score_threshold"),
    OptionAlias("returnVectors", "Workglow", "return_vectors"),
    OptionAlias("vectorWeight", "Workglow", OPTIONS_FIELD, "dense_weight", is_in_options=True),
)


class _Translation:
    """Object of a request while its aliases are replaced, and the faults of the aliases."""

    def __init__(self, data: Mapping[str, Any], field_names: Collection[str]) -> None:
        self.fields = dict(data)
        self.field_names = field_names
        self.faults: list[InitErrorDetails] = []

    def replace_field(self, alias: OptionAlias) -> None:
        """Replace an alias among the fields."""
        self._replace(alias, self.fields, ())

    def replace_option(self, alias: OptionAlias) -> None:
        """Replace an alias within ``strategy_options``."""
        options = dict(self.fields[OPTIONS_FIELD])
        self.fields[OPTIONS_FIELD] = options
        self._replace(alias, options, (OPTIONS_FIELD,))

    def _replace(self, alias: OptionAlias, holder: dict[str, Any], loc: tuple[str, ...]) -> None:
        value, loc = holder.pop(alias.name), (*loc, alias.name)
        if alias.target is not None and alias.target not in self.field_names:
            return self._add_fault(loc, f"{alias.name} means {alias.main_name}, which this object does not have", value)
        try:
            translated = alias.translate(value)
        except ValueError as exc:
            return self._add_fault(loc, str(exc), value)
        if alias.main_name is None:
            return None
        settings = self._open_options() if alias.target == OPTIONS_FIELD else self.fields
        if settings is None:
            return None  # the model reports that strategy_options is no object
        if alias.main_name in settings and not _is_same(settings[alias.main_name], translated):
            message = f"{alias.name} and {alias.main_name} have different values: send one of them"
            return self._add_fault(loc, message, value)
        settings[alias.main_name] = translated
        return None

    def _open_options(self) -> dict[str, Any] | None:
        """Return a copy of ``strategy_options`` that may be changed; None if it is no object."""
        options = self.fields.get(OPTIONS_FIELD)
        if options is not None and not isinstance(options, dict):
            return None
        self.fields[OPTIONS_FIELD] = changed = dict(options or {})
        return changed

    def _add_fault(self, loc: tuple[str, ...], message: str, value: Any) -> None:
        error = PydanticCustomError("alias", "{message}", {"message": message})
        self.faults.append(InitErrorDetails(type=error, loc=loc, input=value))


def translate_aliases(data: Mapping[str, Any], model: type[StrictRequestModel]) -> dict[str, Any]:
    """Return an object of a request with Carrel's names and values in place of those of other systems.

    An option that the strategy of a plugin declares is never an alias. Without a ``strategy``, this applies to the
    options of all plugins. If the strategy is not installed, its options stay unchanged.

    Args:
        data: The object as the caller sent it; it stays unchanged.
        model: Model of the object.

    Raises:
        ValidationError: Carrel has no such value, or an alias and Carrel's name have different values.
    """
    translation = _Translation(data, model.model_fields)
    for alias in ALIASES:
        if alias.name in data and alias.name not in model.model_fields:
            translation.replace_field(alias)
    options = translation.fields.get(OPTIONS_FIELD)
    if isinstance(options, dict) and OPTIONS_FIELD in model.model_fields:
        for alias in _select_option_aliases(translation.fields.get("strategy")):
            if alias.name in options:
                translation.replace_option(alias)
    if translation.faults:
        raise ValidationError.from_exception_data(model.__name__, translation.faults)
    return translation.fields


def _select_option_aliases(strategy: object) -> list[OptionAlias]:
    """Return the aliases within the options of a strategy."""
    installed = load_strategies()
    names = set(installed)
    if isinstance(strategy, str):
        names = {STRATEGY_ALIASES.get(strategy, strategy)}
        if not names <= installed.keys():
            return []
    declared = {option for name in names - STRATEGIES.keys() for option in installed[name].options.model_fields}
    return [alias for alias in ALIASES if alias.is_in_options and alias.name not in declared]


def _is_same(value: object, other: object) -> bool:
    if isinstance(value, int | float) and isinstance(other, int | float):
        return isclose(value, other, rel_tol=1e-9, abs_tol=1e-9)
    return value == other


class AliasedRequestModel(StrictRequestModel):
    """Settings of a search, with the names of other systems as aliases."""

    @model_validator(mode="before")
    @classmethod
    def _translate_aliases(cls, data: Any) -> Any:
        return translate_aliases(data, cls) if isinstance(data, dict) else data
