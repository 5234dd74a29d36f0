"""The base of all groups of settings: a frozen group read from ``CARREL_*`` variables, and types of URLs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from app.settings.environment import read_env_file

PREFIX = "CARREL_"
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def _check_http_url(value: str) -> str:
    if not value.isprintable() or " " in value:  # urlsplit passes over line breaks
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
            raise ValueError(f"takes one option, sslmode, which is one of: {', '.join(SSL_MODES)}")
    return value


HttpUrl = Annotated[str, AfterValidator(_check_http_url)]
PostgresUrl = Annotated[SecretStr, AfterValidator(_check_postgres_url)]


def make_absolute(path: Path) -> Path:
    """Return the same place for every working directory."""
    return path.expanduser().absolute()


def env_field(name: str, default: Any = ..., **limits: Any) -> Any:
    """Create a field that is read from the variable ``CARREL_<name>``."""
    return Field(default, validation_alias=AliasChoices(PREFIX + name), **limits)


class _FileSource(EnvSettingsSource):
    """The settings file, read as ``read_env_file`` reads it: the library would fill in other variables."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in read_env_file().items() if value}


class SettingsGroup(BaseSettings):
    """One group of settings; an empty variable counts as not set."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True)
    required_together: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (its signature is the library's)
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (the same)
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the process environment, then the settings file; no secrets directory."""
        return init_settings, env_settings, _FileSource(settings_cls)

    @model_validator(mode="after")
    def _check_required_together(self) -> Self:
        """Refuse settings that only make sense together and are given in part."""
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
