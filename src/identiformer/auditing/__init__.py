"""A data set through a model: certificates of its heads in a table, their summary, and figures."""

from identiformer.auditing.audit import audit
from identiformer.auditing.settings import AuditSettings

__all__ = ["AuditSettings", "audit"]
