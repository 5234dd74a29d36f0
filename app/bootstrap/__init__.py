"""Construction of all services: the resources of a process, and the services of one caller."""

from app.bootstrap.resources import Resources
from app.bootstrap.tenant_services import TenantServices

__all__ = ["Resources", "TenantServices"]
