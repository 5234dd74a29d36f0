"""Settings: typed, grouped, frozen, read once from ``CARREL_*`` variables and from the settings file."""

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from app.settings.answers import AnswerSettings
from app.settings.api_server import ServerSettings
from app.settings.audit import AuditSettings
from app.settings.chat_models import ModelSettings
from app.settings.database import DatabaseSettings
from app.settings.deletion import DeletionSettings
from app.settings.embedding import AdditionalEmbeddingModel, EmbeddingSettings
from app.settings.environment import ENV_FILE, SettingsError, get_user_cache_dir, read_environment
from app.settings.http_sources import HttpSourceSettings
from app.settings.identity import IdentitySettings
from app.settings.object_store import ObjectStoreSettings
from app.settings.origins import check_secret_sources
from app.settings.parser import ParserSettings
from app.settings.pgvector_sources import PgvectorSourceSettings
from app.settings.quotas import KeyLimits, QuotaLimits, QuotaSettings
from app.settings.renames import explain_renamed_variables, find_new_key
from app.settings.rerank import RerankSettings
from app.settings.settings_group import PREFIX, HttpUrl, SettingsGroup, get_reader, get_unit, get_variable_name
from app.settings.sql_views import SqlViewSettings
from app.settings.transfers import TransferSettings
from app.settings.webhook_delivery import WebhookSettings
from app.settings.worker import WorkerSettings

__all__ = [
    "EXTERNAL_DESCRIPTIONS",
    "EXTERNAL_VARIABLES",
    "GROUPS",
    "AdditionalEmbeddingModel",
    "AnswerSettings",
    "AuditSettings",
    "DatabaseSettings",
    "DeletionSettings",
    "EmbeddingSettings",
    "HttpSourceSettings",
    "HttpUrl",
    "IdentitySettings",
    "KeyLimits",
    "ModelSettings",
    "ObjectStoreSettings",
    "ParserSettings",
    "PgvectorSourceSettings",
    "QuotaLimits",
    "QuotaSettings",
    "RerankSettings",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "SettingsGroup",
    "SqlViewSettings",
    "TransferSettings",
    "WebhookSettings",
    "WorkerSettings",
    "get_reader",
    "get_unit",
    "get_user_cache_dir",
    "get_variable_name",
    "list_variables",
    "load_settings",
]


class Settings(BaseModel):
    """All settings of a process, in groups."""

    model_config = ConfigDict(frozen=True)

    server: ServerSettings
    identity: IdentitySettings
    database: DatabaseSettings
    object_store: ObjectStoreSettings
    embedding: EmbeddingSettings
    models: ModelSettings
    answers: AnswerSettings
    rerank: RerankSettings
    http_sources: HttpSourceSettings
    pgvector_sources: PgvectorSourceSettings
    sql_views: SqlViewSettings
    parser: ParserSettings
    worker: WorkerSettings
    quotas: QuotaSettings
    transfers: TransferSettings
    audit: AuditSettings
    deletion: DeletionSettings
    webhooks: WebhookSettings


GROUPS: dict[str, Any] = {name: field.annotation for name, field in Settings.model_fields.items()}
# Variables that belong to no group: the choice of the settings file, and settings of programs around the service.
EXTERNAL_DESCRIPTIONS = {
    ENV_FILE: "Path of the settings file, instead of .env in the current directory. An empty value means that no file "
    "is read. It works in the environment only.",
    PREFIX + "URL": "Base URL of the service for client commands such as `carrel search`.",
    PREFIX + "API_KEY": "API key for client commands.",
    PREFIX + "EVAL_DATA": "Directory of evaluation data sets for the benchmarks.",
}
EXTERNAL_VARIABLES = set(EXTERNAL_DESCRIPTIONS)


def list_variables() -> set[str]:
    """Return the names of all ``CARREL_*`` variables that the service reads."""
    return {get_variable_name(field) for group in GROUPS.values() for field in group.model_fields.values()}


def load_settings(**overrides: dict[str, Any]) -> Settings:
    """Read all settings from the environment and from the settings file.

    Args:
        overrides: Values of the command line by group: ``server={"CARREL_PORT": 9000}``. They override both sources.

    Returns:
        The validated settings.

    Raises:
        SettingsError: A variable is invalid, unknown or missing; the message is one line that names the variable.
    """
    values = {name.upper(): value for name, value in read_environment().items()}
    # The list of additional embedding models also names the variables that hold API keys. These names are free.
    key_variables = set(re.findall(r"\w+", values.get(f"{PREFIX}EMBEDDING_MODELS", "").upper()))
    unknown = sorted(
        {name for name in values if name.startswith(PREFIX)} - list_variables() - EXTERNAL_VARIABLES - key_variables
    )
    if explanation := explain_renamed_variables(unknown):
        raise SettingsError(explanation)
    if unknown:
        raise SettingsError(f"unknown setting {unknown[0]}; correct or remove it; .env.example lists all settings")
    check_secret_sources()
    groups: dict[str, Any] = {}
    for name, group in GROUPS.items():
        try:
            groups[name] = group(**overrides.get(name, {}))
        except ValidationError as exc:
            raise SettingsError(_format_error(exc, group)) from None
    return Settings(**groups)


def _format_error(error: ValidationError, group: type[SettingsGroup]) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return message if message.startswith(PREFIX) else f"{group.__name__}: {message}"
    location = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden" and (new_key := find_new_key(str(first["loc"][0]), str(first["loc"][-1]))):
        return f"{location} is called {new_key} now."
    return f"{location}: {message[0].lower()}{message[1:]}"
