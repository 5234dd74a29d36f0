"""The composition root: what a process holds, and what one caller may do with it."""

from app.bootstrap.resources import Resources
from app.bootstrap.tenant_services import TenantServices

__all__ = ["Resources", "TenantServices"]
