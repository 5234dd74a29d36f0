"""Passwords of database logins: made here, known to Postgres as a verifier alone."""

import base64
import hashlib
import hmac
import re
import secrets

ITERATIONS = 4096  # Postgres' own; a password of 192 bits needs no more
SALT_BYTES = 16
PASSWORD_PREFIX = "carrel_db_"  # noqa: S105  by which scanners, and what keeps answers, know one
PASSWORD_PATTERN = re.compile(PASSWORD_PREFIX + r"[A-Za-z0-9_-]{32}")


def generate_password() -> str:
    """One that nobody guesses, and that needs no escaping in a URL."""
    return PASSWORD_PREFIX + secrets.token_urlsafe(24)


def compute_scram_verifier(password: str) -> str:
    """What Postgres keeps of an ASCII password (RFC 5803): it cannot be used in the password's place."""
    salt = secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    salt_text, stored, server = (base64.b64encode(part).decode() for part in (salt, stored_key, server_key))
    return f"SCRAM-SHA-256${ITERATIONS}:{salt_text}${stored}:{server}"
