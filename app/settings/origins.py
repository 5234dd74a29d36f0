"""Check of the sources of settings: a secret and the address that receives the secret must come from the same
source.
"""

import json
from collections.abc import Iterator, Mapping

from app.settings.environment import ENV_FILE, SettingsError, read_sources
from app.settings.settings_group import PREFIX

# Secret -> the address that the secret is sent to. Other secrets are never sent, or share a variable with an address.
ADDRESS_BY_SECRET = {
    "EMBEDDING_API_KEY": "EMBEDDING_BASE_URL",
    "CHAT_API_KEY": "CHAT_BASE_URL",
    "RERANK_API_KEY": "RERANK_URL",
    "S3_ACCESS_KEY_ID": "S3_ENDPOINT_URL",
    "S3_SECRET_ACCESS_KEY": "S3_ENDPOINT_URL",
}


def check_secret_sources() -> None:
    """Refuse a secret whose address comes from another source.

    Another person may have written the file ``.env`` in the current directory. Its address must not receive a secret
    of the environment.

    Raises:
        SettingsError: A secret and its address come from different sources.
    """
    variables_by_source = read_sources()

    def find_source(name: str) -> str | None:
        return next((source for source, variables in variables_by_source.items() if name in variables), None)

    for secret, address in _iterate_secret_addresses(variables_by_source):
        secret_source, address_source = find_source(secret), find_source(address)
        if secret_source and address_source and secret_source != address_source:
            raise SettingsError(
                f"{secret} comes from {secret_source} and {address} from {address_source}: set both in the same place, "
                f"or set {ENV_FILE} to the path of the file"
            )


def _iterate_secret_addresses(variables_by_source: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    yield from ((PREFIX + secret, PREFIX + address) for secret, address in ADDRESS_BY_SECRET.items())
    models = f"{PREFIX}EMBEDDING_MODELS"
    encoded = next((variables[models] for variables in variables_by_source.values() if models in variables), "[]")
    try:
        entries = json.loads(encoded)
    except (ValueError, RecursionError):  # load_settings reports it
        return
    for model in entries if isinstance(entries, list) else []:
        if isinstance(model, dict) and isinstance(name := model.get("api_key_env"), str):
            yield name.upper(), models
