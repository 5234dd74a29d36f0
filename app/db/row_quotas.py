"""Row quotas: the error of a row that a trigger of the database refuses."""

from typing import Self

from sqlalchemy.exc import DBAPIError

from app.errors import TooManyRequestsError

# The number of rows falls only when somebody deletes some. An earlier retry is useless.
RETRY_AFTER_SECONDS = 60.0
_REMEDIES = {
    "stored_responses": "Send requests without Idempotency-Key, wait until older responses expire after 24 hours",
    "prompt_versions": "Delete agents or knowledge bases whose prompts are not needed",
    "file_batches": "Delete vector stores that are not needed",
    "batch_files": "Delete vector stores that are not needed",
    "chats": "Upload into chats that exist",
}


class RowQuotaExceeded(TooManyRequestsError):
    """A quota of this tenant is used up. Delete rows, or ask the operator for a larger quota."""

    code = "quota_exceeded"

    @classmethod
    def from_database(cls, error: DBAPIError) -> Self:
        """Create the error from the name and the value of the quota in the error of a trigger.

        Args:
            error: Error of the statement. Its message is the name of the quota and its value.
        """
        cause = getattr(error.orig, "__cause__", None) or error.orig
        quota, limit = str(cause).split()[:2]
        remedy = _REMEDIES.get(quota, "Delete some")
        message = (
            f"This tenant's quota of {limit} {quota.replace('_', ' ')} is used up. "
            f"{remedy}, or ask the operator for a larger quota."
        )
        return cls(message, retry_after=RETRY_AFTER_SECONDS, quota=quota, limit=int(limit))
