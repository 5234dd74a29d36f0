"""Where settings come from: a secret and the address that it is sent to must come from the same place."""

import json
from collections.abc import Iterator, Mapping

from app.settings.environment import ENV_FILE, SettingsError, sources
from app.settings.group import PREFIX

# Secret -> the address that it is sent to. Other secrets hold their address in the same variable, or are never sent.
ADDRESS_OF = {
    "EMBEDDING_API_KEY": "EMBEDDING_BASE_URL",
    "CHAT_API_KEY": "CHAT_BASE_URL",
    "RERANK_API_KEY": "RERANK_URL",
    "S3_ACCESS_KEY_ID": "S3_ENDPOINT_URL",
    "S3_SECRET_ACCESS_KEY": "S3_ENDPOINT_URL",
}


def check_origins() -> None:
    """Refuse a secret whose address comes from another place.

    The file ``.env`` in the current directory may have been written by somebody else. Raises SettingsError.
    """
    places = sources()

    def place_of(name: str) -> str | None:
        return next((place for place, variables in places.items() if name in variables), None)

    for secret, address in _pairs(places):
        of_secret, of_address = place_of(secret), place_of(address)
        if of_secret and of_address and of_secret != of_address:
            raise SettingsError(
                f"{secret} comes from {of_secret} and {address} from {of_address}: set both in the same place, "
                f"or name the file in {ENV_FILE}"
            )


def _pairs(places: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    yield from ((PREFIX + secret, PREFIX + address) for secret, address in ADDRESS_OF.items())
    models = f"{PREFIX}EMBEDDING_MODELS"
    listed = next((variables[models] for variables in places.values() if models in variables), "[]")
    try:
        given = json.loads(listed)
    except (ValueError, RecursionError):  # told when the group is read
        return
    for model in given if isinstance(given, list) else []:
        if isinstance(model, dict) and isinstance(name := model.get("api_key_env"), str):
            yield name.upper(), models
