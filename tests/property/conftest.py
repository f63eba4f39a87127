"""Hypothesis profiles: the same examples on every machine, or more and random ones by hand.

HYPOTHESIS_PROFILE=explore HYPOTHESIS_EXAMPLES=1000 pytest tests/property
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=150,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "explore",
    parent=settings.get_profile("ci"),
    derandomize=False,
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "3000")),
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
