"""What this host's own slurm.conf says."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_flex.cluster.settings import parse_settings
from slurm_flex.render.installed import installed


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("SlurmUser=slurm\n", "slurm"),
        ("slurmuser=ops # not slurm\n", "ops"),
        ("Include more.conf\n", "included"),
        ("SlurmUser=0\n", "root"),
        ("SlurmUser=424242\n", "424242"),
        ("SlurmctldHost=c\n", "root"),
        (None, None),
    ],
)
def test_slurm_user_is_whom_slurm_conf_names_and_root_where_it_names_nobody(
    tmp_path: Path, text: str | None, user: str | None
) -> None:
    conf = tmp_path / "slurm.conf"
    if text is not None:
        conf.write_text(text)
    (tmp_path / "more.conf").write_text("SlurmUser=included\n")
    assert installed(parse_settings({"slurm_conf": str(conf)}), {}).slurm_user() == user
