"""Base class of the groups of settings, which are frozen and read from ``CARREL_*`` variables; types of URLs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from app.settings.environment import read_env_file

PREFIX = "CARREL_"
Reader = Literal["API", "worker", "API and worker"]
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def _check_http_url(value: str) -> str:
    if not value.isprintable() or " " in value:  # urlsplit ignores line breaks
        raise ValueError("must be an http or https URL without spaces and control characters")
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError("must be an http or https URL")
    return value.rstrip("/")


def _check_postgres_url(value: SecretStr) -> SecretStr:
    parts = urlsplit(value.get_secret_value())
    if parts.scheme not in ("postgresql", "postgres", "postgresql+asyncpg"):
        raise ValueError("must begin with postgresql://")
    if not parts.username or not parts.path.strip("/"):
        raise ValueError("must name a user and a database")
    for name, option in parse_qsl(parts.query, keep_blank_values=True):
        if name != "sslmode" or option not in SSL_MODES:
            raise ValueError(f"takes only the option sslmode, which is one of: {', '.join(SSL_MODES)}")
    return value


HttpUrl = Annotated[str, AfterValidator(_check_http_url)]
PostgresUrl = Annotated[SecretStr, AfterValidator(_check_postgres_url)]


def make_absolute(path: Path) -> Path:
    """Return an absolute path, so that a later change of the working directory has no effect."""
    return path.expanduser().absolute()


def env_field(
    name: str,
    default: Any,
    *,
    description: str,
    read_by: Reader,
    unit: str | None = None,
    further_alias: str | None = None,
    **limits: Any,
) -> Any:
    """Create a settings field that is read from the variable ``CARREL_<name>``.

    Documentation generators read ``unit`` and ``read_by`` with ``get_unit`` and ``get_reader``.

    Args:
        name: Name of the variable without the prefix.
        default: Value if the variable is not set or empty.
        description: Effect of the setting, in plain sentences for operators.
        read_by: Process that uses the value: API, worker, or both. Every process validates the value at its start.
        unit: Unit of a number or of a length, in the plural.
        further_alias: Full name of another variable, which is read if ``CARREL_<name>`` is not set.
        limits: Other arguments of pydantic's ``Field``, such as ``ge`` and ``le``.

    Returns:
        The field, as pydantic's ``Field`` returns it.
    """
    aliases = [PREFIX + name] if further_alias is None else [PREFIX + name, further_alias]
    return Field(
        default,
        validation_alias=AliasChoices(*aliases),
        description=description,
        json_schema_extra={"unit": unit, "read_by": read_by},
        **limits,
    )


class _FileSource(EnvSettingsSource):
    """Source of the variables of the settings file.

    It uses ``read_env_file``, because the library's own source replaces ``$NAME`` in values by other variables.
    """

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in read_env_file().items() if value}


class SettingsGroup(BaseSettings):
    """Group of settings. An empty variable counts as not set.

    The names in ``required_together`` must be set together or not at all.
    """

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True)
    required_together: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (the library fixes the signature)
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (the same)
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in their order: command line, process environment, settings file."""
        return init_settings, env_settings, _FileSource(settings_cls)

    @model_validator(mode="after")
    def _check_required_together(self) -> Self:
        """Refuse the settings if only a part of ``required_together`` is set."""
        present = [name for name in self.required_together if getattr(self, name) is not None]
        missing = [name for name in self.required_together if getattr(self, name) is None]
        if present and missing:
            names = ", ".join(get_variable_name(type(self).model_fields[name]) for name in missing)
            raise ValueError(f"{names} must be set too")
        return self


def get_variable_name(field: FieldInfo) -> str:
    """Return the environment variable of a settings field."""
    alias = field.validation_alias
    return str(alias.choices[0]) if isinstance(alias, AliasChoices) else ""


def parse_bindings(value: Any) -> Any:
    """Parse a JSON list of bindings of sources. A value that is no text stays as it is. Raises ValueError."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise ValueError("must be a JSON list of bindings") from None


def get_unit(field: FieldInfo) -> str | None:
    """Return the unit of a settings field, or None if its value has no unit."""
    extra = field.json_schema_extra
    return str(extra["unit"]) if isinstance(extra, dict) and extra.get("unit") else None


def get_reader(field: FieldInfo) -> str:
    """Return the process that uses a settings field: API, worker, or API and worker."""
    extra = field.json_schema_extra
    return str(extra["read_by"]) if isinstance(extra, dict) and "read_by" in extra else ""
