"""Rate limits: buckets per project, region and kind of call, refilled at each full minute.

The minute is the wall clock's. listManagedInstances and listErrors are charged as writes,
operations.wait and aggregated lists as heavy reads (documented)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from slurm_flex.emulator.core.errors import ApiError
from slurm_flex.emulator.core.knobs import Knobs

NAMES = {
    "read": ("ReadRequestsPerMinutePerProjectPerRegion", "reads_per_minute"),
    "write": ("WriteRequestsPerMinutePerProjectPerRegion", "writes_per_minute"),
    "operation_read": ("OperationReadRequestsPerMinutePerProjectPerRegion",
                       "operation_reads_per_minute"),
    "heavy": ("HeavyWeightReadRequestsPerMinutePerProjectPerRegion", "heavy_reads_per_minute"),
}  # fmt: skip


class RateLimits:
    """Counts calls within the current minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._minute = 0
        self._used: Counter[tuple[str, str, str]] = Counter()

    def charge(self, knobs: Knobs, project: str, region: str, bucket: str) -> None:
        """Count one call. Raises 403 rateLimitExceeded when the bucket is empty."""
        minute = int(self._clock() // 60)
        if minute != self._minute:
            self._minute = minute
            self._used.clear()
        limit = int(getattr(knobs, NAMES[bucket][1]))
        key = (project, region, bucket)
        if limit and self._used[key] >= limit:
            raise rate_limit_exceeded(project, bucket)
        self._used[key] += 1

    def used(self) -> dict[str, int]:
        """Calls of this minute by ``project/region/bucket``."""
        return {"/".join(key): count for key, count in sorted(self._used.items())}


def rate_limit_exceeded(project: str, bucket: str) -> ApiError:
    """403 rateLimitExceeded in Google's words."""
    limit = NAMES[bucket][0]
    return ApiError(
        403,
        "rateLimitExceeded",
        f"Quota exceeded for quota metric 'Queries' and limit '{limit}' of service "
        f"'compute.googleapis.com' for consumer 'project_number:{project}'.",
        domain="usageLimits",
        status="PERMISSION_DENIED",
        details=(
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "RATE_LIMIT_EXCEEDED",
                "domain": "googleapis.com",
                "metadata": {"service": "compute.googleapis.com", "quota_limit": limit,
                             "consumer": f"projects/{project}"},
            },
        ),
    )  # fmt: skip
