"""Errors in the shapes that Compute Engine gives them: in the HTTP answer, or in an operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_flex.errors import FlexError

Json = dict[str, Any]


class ApiError(FlexError):
    """An answer other than 2xx, with Google's error body."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        domain: str = "global",
        location: str = "",
        location_type: str = "",
        status: str = "",
        details: tuple[Mapping[str, Any], ...] = (),
        has_errors: bool = True,
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.domain = domain
        self.location = location
        self.location_type = location_type
        self.status = status
        self.details = details
        self.has_errors = has_errors
        super().__init__(message)

    def body(self) -> Json:
        """The JSON body, as the Compute API writes it; without `errors`, as the newer APIs do."""
        entry: Json = {"message": self.message, "domain": self.domain, "reason": self.reason}
        if self.location:
            entry |= {"location": self.location, "locationType": self.location_type}
        error: Json = {"code": self.code, "message": self.message}
        if self.has_errors:
            error["errors"] = [entry]
        if self.status:
            error["status"] = self.status
        if self.details:
            error["details"] = [dict(detail) for detail in self.details]
        return {"error": error}


def not_found(path: str) -> ApiError:
    """404: the resource is not there. ``path`` starts with ``projects/``."""
    return ApiError(404, "notFound", f"The resource '{path}' was not found")


def already_exists(path: str) -> ApiError:
    """409: a resource of that name is there."""
    return ApiError(409, "alreadyExists", f"The resource '{path}' already exists")


def invalid(field_name: str, value: object, why: str) -> ApiError:
    """400: a field's value is not acceptable."""
    return ApiError(400, "invalid", f"Invalid value for field '{field_name}': '{value}'. {why}")


def required(field_name: str) -> ApiError:
    """400: a field is missing."""
    return ApiError(400, "required", f"Required field '{field_name}' not specified")


def condition_not_met(message: str) -> ApiError:
    """412: the resource is not in a state that allows this."""
    return ApiError(412, "conditionNotMet", message, location="If-Match", location_type="header")


def fault_code(code: int, message: str) -> ApiError:
    """A server-side failure: 500, 503 or 429 in the shapes of the public record."""
    reason = {429: "rateLimitExceeded", 500: "backendError", 503: "backendError"}
    status = {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
    domain = "usageLimits" if code == 429 else "global"
    return ApiError(
        code,
        reason.get(code, "backendError"),
        message,
        domain=domain,
        status=status.get(code, ""),
    )


@dataclass(frozen=True)
class Problem:
    """One error inside an operation, a resize request or a managed instance."""

    code: str
    message: str
    http: int = 400
    details: tuple[Mapping[str, Any], ...] = field(default=())
    location: str = ""

    def body(self) -> Json:
        """As it stands in ``error.errors[]``."""
        entry: Json = {"code": self.code, "message": self.message}
        if self.location:
            entry["location"] = self.location
        if self.details:
            entry["errorDetails"] = [dict(detail) for detail in self.details]
        return entry
