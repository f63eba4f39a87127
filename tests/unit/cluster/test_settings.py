"""slurm-flex.toml: defaults, limits, where it is found, and that its documentation is true."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from cluster_files import EXAMPLE, GONE, changed

from slurm_flex.cluster import load_cluster, parse_cluster
from slurm_flex.cluster.settings import (
    SECTIONS,
    Settings,
    cluster_file,
    find_settings_file,
    load_settings,
    parse_settings,
)
from slurm_flex.cluster.settings_doc import document, markdown_tables, toml_value
from slurm_flex.cluster.site import load_site, settle
from slurm_flex.errors import InputErrors

ROOT = Path(__file__).parents[3]


def test_the_documented_file_holds_every_setting_with_its_default() -> None:
    path = ROOT / "etc" / "slurm-flex.toml"
    assert load_settings(path) == Settings()
    text = path.read_text()
    for name in Settings.model_fields:
        assert f"\n{name} = {toml_value(getattr(Settings(), name))}\n" in text
    assert text == document()


def test_the_page_on_settings_holds_every_setting() -> None:
    assert markdown_tables() in (ROOT / "docs" / "settings.md").read_text()


def test_every_setting_is_described_and_in_one_section() -> None:
    names = [name for section in SECTIONS for name in section.__annotations__]
    assert sorted(names) == sorted(Settings.model_fields)
    assert all(field.description for field in Settings.model_fields.values())


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().interval = timedelta(1)  # type: ignore[misc]


def test_only_what_differs_is_told() -> None:
    settings = parse_settings(
        {"max_queue_wait": "36h", "expiry_signal": {"a3u": "USR1"}, "interval": "30s"}
    )
    assert settings.differing() == {"max_queue_wait": "36h", "expiry_signal": {"a3u": "USR1"}}
    assert parse_settings(settings.differing()) == settings
    assert Settings().differing() == {}


def test_durations_are_read_in_every_spelling() -> None:
    settings = parse_settings({"interval": 90, "busy_interval": "1.5s", "boot_timeout": "2h"})
    assert settings.interval == timedelta(seconds=90)
    assert settings.busy_interval == timedelta(seconds=1.5)
    assert settings.boot_timeout == timedelta(hours=2)


def test_all_errors_come_at_once_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "slurm-flex.toml"
    path.write_text(
        "intervall = '3s'\n\nboot_timeout = 'soon'\nmetrics_port = 70000\n"
        "backend = 'rest'\nrefresh_static = 1\nproject = 5\n[expiry_signal]\na3u = 3\n"
    )
    with pytest.raises(InputErrors) as caught:
        load_settings(path)
    said = [str(error).removeprefix(str(path)) for error in caught.value.errors]
    assert said[0] == ":1: intervall is no setting (did you mean interval?)"
    assert said[1].startswith(":3: boot_timeout: 'soon' is not a duration")
    assert said[2] == ":4: metrics_port: 70000 is out of range, at most 65535"
    assert said[3] == ":5: backend: 'rest' is not 'scontrol' or 'pyslurm'"
    assert said[4] == ":6: refresh_static: 1 is not true or false"
    assert said[5] == ":7: project: 5 is not text in quotes"
    assert said[6] == ":8: expiry_signal.a3u: 3 is not text in quotes"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"interval": "0s"}, "more than 0s"),
        ({"interval": -1}, "is not a duration"),
        ({"interval": True}, "is not a duration"),
        ({"vanish_percent": 101}, "at most 100"),
        ({"breaker_failures": 5}, "at most 4"),
        ({"active_requests": 0}, "at least 1"),
        ({"busy_interval": "1m"}, "busy_interval is longer than interval"),
        ({"capacity_backoff": "2h"}, "longer than capacity_backoff_max"),
        ({"suspend_timeout": "3m"}, "120 s after a node failure"),
        ({"key_source": "vault:x"}, "'vault:x' is not valid"),
        ({"default_time": "4 hours"}, "'4 hours' is not valid"),
        ({"node_overrides": {"a3u": "x"}}, "is not a table"),
    ],
)
def test_a_setting_out_of_its_limits_is_refused(data: dict[str, object], words: str) -> None:
    with pytest.raises(InputErrors, match=re.escape(words)):
        parse_settings(data)


@pytest.mark.parametrize(
    ("text", "line"), [("a = \n", 1), ("x = 1\nx = 2\n", 2), ('a = 1\nb = "open', 2)]
)
def test_broken_toml_names_its_line(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(InputErrors, match=rf"s\.toml:{line}: is not TOML"):
        load_settings(path)


class TestFinding:
    def test_the_variable_comes_first_even_where_it_leads_nowhere(self, tmp_path: Path) -> None:
        named = tmp_path / "mine.toml"
        assert find_settings_file({"SLURM_FLEX_CONFIG": str(named)}) == named
        with pytest.raises(InputErrors, match="No such file"):
            load_settings(named)

    def test_then_the_folder_of_slurm_conf(self, tmp_path: Path) -> None:
        (tmp_path / "slurm-flex.toml").write_text("")
        env = {"SLURM_CONF": str(tmp_path / "slurm.conf")}
        assert find_settings_file(env) == tmp_path / "slurm-flex.toml"

    def test_the_cluster_file_lies_beside_the_settings(self, tmp_path: Path) -> None:
        beside = tmp_path / "slurm-flex.toml"
        assert cluster_file(Settings(), beside) == tmp_path / "cluster_config.json"
        assert cluster_file(Settings(cluster_file="c.json"), beside) == tmp_path / "c.json"
        assert cluster_file(Settings(cluster_file="/x/c.json"), beside) == Path("/x/c.json")


class TestASite:
    def test_both_files_are_read_together(self, tmp_path: Path) -> None:
        (tmp_path / "slurm-flex.toml").write_text('region = "europe-west4"\n')
        (tmp_path / "cluster_config.json").write_text(EXAMPLE.read_text())
        site = load_site({"SLURM_CONF": str(tmp_path / "slurm.conf")})
        assert site.cluster.project == "example-project"
        assert site.cluster.region == "europe-west4"
        assert site.settings_path == tmp_path / "slurm-flex.toml"

    def test_a_project_that_nobody_names_is_an_error(self) -> None:
        cluster = parse_cluster(changed(("name", GONE)))
        with pytest.raises(InputErrors, match="the project isn't named anywhere"):
            settle(cluster, Settings())
        assert settle(cluster, Settings(project="p")).project == "p"

    def test_settings_for_pools_that_are_not_there_are_errors(self) -> None:
        settings = Settings(node_overrides={"x": {}}, expiry_signal={"y": "USR1"})
        with pytest.raises(InputErrors) as caught:
            settle(load_cluster(EXAMPLE), settings)
        assert [error.what for error in caught.value.errors] == [
            'node_overrides: there is no pool "x"',
            'expiry_signal: there is no partition "y"',
        ]
