"""Passwords of database logins. Postgres stores only a verifier of each password."""

import base64
import hashlib
import hmac
import re
import secrets

ITERATIONS = 4096  # the default of Postgres, which is enough for a random password of 192 bits
SALT_BYTES = 16
PASSWORD_PREFIX = "carrel_db_"  # noqa: S105  (secret scanners and stored responses recognize passwords by it)
PASSWORD_PATTERN = re.compile(PASSWORD_PREFIX + r"[A-Za-z0-9_-]{32}")


def generate_password() -> str:
    """Return a random password that needs no escaping in a URL."""
    return PASSWORD_PREFIX + secrets.token_urlsafe(24)


def compute_scram_verifier(password: str) -> str:
    """Return the SCRAM-SHA-256 verifier that Postgres stores for an ASCII password (RFC 5803).

    A verifier cannot be used in place of the password.

    Args:
        password: The password.

    Returns:
        The verifier, with a random salt.
    """
    salt = secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    salt_text, stored, server = (base64.b64encode(part).decode() for part in (salt, stored_key, server_key))
    return f"SCRAM-SHA-256${ITERATIONS}:{salt_text}${stored}:{server}"
