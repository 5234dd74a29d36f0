"""The sources of settings: a secret and the address that it is sent to must come from the same source."""

import json
from collections.abc import Iterator, Mapping

from app.settings.environment import ENV_FILE, SettingsError, read_sources
from app.settings.settings_group import PREFIX

# Secret -> the address that it is sent to. Other secrets hold their address in the same variable, or are never sent.
ADDRESS_BY_SECRET = {
    "EMBEDDING_API_KEY": "EMBEDDING_BASE_URL",
    "CHAT_API_KEY": "CHAT_BASE_URL",
    "RERANK_API_KEY": "RERANK_URL",
    "S3_ACCESS_KEY_ID": "S3_ENDPOINT_URL",
    "S3_SECRET_ACCESS_KEY": "S3_ENDPOINT_URL",
}


def check_secret_sources() -> None:
    """Refuse a secret whose address comes from another place.

    The file ``.env`` in the current directory may have been written by somebody else. Raises SettingsError.
    """
    variables_by_source = read_sources()

    def find_source(name: str) -> str | None:
        return next((source for source, variables in variables_by_source.items() if name in variables), None)

    for secret, address in _iterate_secret_addresses(variables_by_source):
        secret_source, address_source = find_source(secret), find_source(address)
        if secret_source and address_source and secret_source != address_source:
            raise SettingsError(
                f"{secret} comes from {secret_source} and {address} from {address_source}: set both in the same place, "
                f"or name the file in {ENV_FILE}"
            )


def _iterate_secret_addresses(variables_by_source: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    yield from ((PREFIX + secret, PREFIX + address) for secret, address in ADDRESS_BY_SECRET.items())
    models = f"{PREFIX}EMBEDDING_MODELS"
    encoded = next((variables[models] for variables in variables_by_source.values() if models in variables), "[]")
    try:
        entries = json.loads(encoded)
    except (ValueError, RecursionError):  # reported when the group is read
        return
    for model in entries if isinstance(entries, list) else []:
        if isinstance(model, dict) and isinstance(name := model.get("api_key_env"), str):
            yield name.upper(), models
