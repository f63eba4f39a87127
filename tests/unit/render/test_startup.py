"""The startup script as text: what is filled in, that bash takes it, the same bytes twice."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_flex.cluster import Cluster, parse_cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.storage import (
    FILESTORE,
    LUSTRE,
    Mount,
    Share,
    filestore_share,
    lustre_share,
    mounts_of,
    names_of,
    resolve_storage,
    services_of,
)
from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.health.node import NODE_FIELDS
from slurm_flex.render.power import program_settings
from slurm_flex.render.startup import (
    SOURCE,
    has_whole_node_jobs,
    health_archive,
    node_facts,
    startup_script,
)

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster_config.json"
HOME = "projects/example-project/locations/us-central1-b/instances/home"
DATA = HOME.replace("/home", "/data")
FAST = HOME.replace("/home", "/fast")
SHARES = {
    HOME: Share("nfs", "10.0.0.2:/home"),
    DATA: Share("nfs", "10.0.0.3:/data"),
    FAST: Share("lustre", "10.0.0.4@tcp:/fast"),
}


def cluster(pool: dict[str, Any] | None = None, **slurm: Any) -> Cluster:
    data = json.loads(EXAMPLE.read_text())
    data["node_pools"][1].update(pool or {})
    data["orchestrator_spec"]["slurm_spec"].update(slurm)
    return parse_cluster(data)


def script(given: Cluster | None = None, pool_id: str = "a3u", **settings: Any) -> str:
    given = given or cluster()
    pool = given.pool(pool_id)
    assert pool is not None
    return startup_script(given, Settings(**settings), pool, SHARES, controller="ctl")


def programs(text: str) -> str:
    """The functions that are filled in."""
    after = text.partition("# ---- programs ----\n")[2]
    return after.partition("# ---- end of programs ----\n")[0]


def value(text: str, name: str) -> str:
    """What bash makes of a variable or a function's output at the end of the filled-in parts."""
    head = text.split("\nset -u -o pipefail", maxsplit=1)[0]
    functions = programs(text)
    attempt = 'attempt() { printf "%s\\n" "$*"; }\n'
    done = subprocess.run(
        ["bash", "-c", f"{head}\n{attempt}{functions}\n{name}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_bash_takes_it_and_nothing_is_left_of_the_example() -> None:
    text = script()
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert (
        value(text, 'echo "$CLUSTER $POOL $ROLE $CONF_SERVER $GPUS"') == "demo a3u compute ctl 8\n"
    )
    assert value(text, 'printf "%s\\n" "${MOUNTS[@]}"') == "nfs 10.0.0.2:/home /home\n"


def test_the_script_in_etc_is_bash() -> None:
    subprocess.run(["bash", "-n", str(SOURCE)], check=True)


def test_it_is_the_same_byte_for_byte_since_templates_are_named_by_it() -> None:
    assert script() == script()


def test_it_fits_into_one_metadata_value() -> None:
    assert len(script().encode()) < 128 * 1024


def test_settings_are_quoted_for_the_shell() -> None:
    text = script(key_source="nfs:/home/x'y;rm/munge.key", slurmd_options='-v --conf "Weight=5"')
    assert value(text, 'echo "$KEY_SOURCE"') == "nfs:/home/x'y;rm/munge.key\n"
    assert value(text, 'printf "[%s]" "${SLURMD_OPTIONS[@]}"') == "[-v][--conf][Weight=5]"


def test_the_settings_name_the_controller_where_they_do() -> None:
    assert value(script(conf_server="10.0.0.9:6817"), "echo $CONF_SERVER") == "10.0.0.9:6817\n"


def test_a_pools_script_arrives_verbatim() -> None:
    own = "#!/usr/bin/env python3\nprint('$HOME `x` \\\\ ')\nSLURM_FLEX_END_OF_TEXT\n<tag>"
    text = script(cluster({"startup_script": own}))
    assert value(text, "pool_script") == own + "\n"
    assert value(script(), "pool_script") == ""


def test_the_facts_of_a_node_are_those_that_the_checks_know() -> None:
    facts = json.loads(value(script(), "node_json"))
    assert facts == {
        "machine_type": "a3-ultragpu-8g",
        "mounts": ["/home"],
        "allow_opt_out": True,
        "gpus": 8,
    }
    assert set(facts) <= set(NODE_FIELDS)


@pytest.mark.parametrize(
    ("configs", "whole"),
    [
        ([{"OverSubscribe": "EXCLUSIVE"}], True),
        ([{"oversubscribe": "exclusive"}, {"Shared": "EXCLUSIVE"}], True),
        ([{"OverSubscribe": "EXCLUSIVE"}, {}], False),
        ([{"OverSubscribe": "FORCE:2"}], False),
        ([{}], False),
    ],
)
def test_checks_that_use_the_gpus_may_run_where_every_job_has_the_node(
    configs: list[dict[str, str]], whole: bool
) -> None:
    data = json.loads(EXAMPLE.read_text())
    data["orchestrator_spec"]["slurm_spec"]["partitions"] = [
        {"id": f"p{at}", "node_pool_ids": ["a3u"], "config": config}
        for at, config in enumerate(configs)
    ]
    given = parse_cluster(data)
    assert has_whole_node_jobs(given, given.compute_pools[0]) is whole


def test_where_slurm_knows_of_no_gpus_none_is_waited_for() -> None:
    assert value(script(gpu_files="none"), "echo $GPUS") == "0\n"
    pool = cluster().pool("a3u")
    assert pool is not None
    assert node_facts(Settings(), pool)["gpus"] == 8


def test_the_checks_come_along_and_nothing_else() -> None:
    packed = base64.b64decode(health_archive())
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        names = archive.getnames()
        modes = {entry.name: entry.mode for entry in archive}
    assert {"scripts/prolog.py", "scripts/epilog.py", "scripts/health.py"} <= set(names)
    assert "slurm_flex/health/scripts.py" in names
    assert "etc/health.d/11-gpu-count.json" in names
    assert not [name for name in names if "resume" in name or "__pycache__" in name]
    assert modes["scripts/prolog.py"] == 0o755
    assert health_archive() == health_archive()
    assert value(script(), "payload").split() == health_archive().split()


def test_without_checks_nothing_is_unpacked() -> None:
    assert value(script(health_checks=False), "payload") == ""


def test_a_login_vm_has_no_checks_and_no_programs() -> None:
    text = script(cluster(prolog_bash_scripts=["true"]), "login")
    assert value(text, 'echo "$ROLE"; payload; site_programs') == "login\n"


def test_the_sites_scripts_run_after_our_checks_in_order_until_one_fails(tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    scripts = [
        f"echo one >>{tried}",
        f"#!/bin/sh\necho two >>{tried}; exit 3\n",
        f"echo no >>{tried}",
    ]
    install = tmp_path / "opt"
    (install / "scripts").mkdir(parents=True)
    ours = install / "scripts/prolog.py"
    ours.write_text(f"#!/bin/sh\necho ours >>{tried}\n")
    ours.chmod(0o755)
    given = cluster(prolog_bash_scripts=scripts)
    text = script(given, install_dir=str(install)).replace(
        "attempt() {", 'attempt() { "$@"; }; unused() {'
    )
    functions = programs(text)
    subprocess.run(["bash", "-c", f'attempt() {{ "$@"; }}\n{functions}\nsite_programs'], check=True)
    [prolog] = [
        setting.value
        for setting in program_settings(given, Settings(install_dir=str(install)))
        if setting.key == "Prolog"
    ]
    assert prolog == str(install / "site/prolog")
    assert subprocess.run([prolog], check=False).returncode == 3
    assert tried.read_text() == "ours\none\ntwo\n"


class TestStorage:
    def test_home_comes_first_then_what_the_pool_names(self) -> None:
        given = cluster({"filestores": [DATA, HOME], "lustres": [FAST]})
        pool = given.pool("a3u")
        assert pool is not None
        assert list(mounts_of(given, pool, SHARES)) == [
            Mount(SHARES[HOME], "/home"),
            Mount(SHARES[DATA], "/mnt/filestore"),
            Mount(SHARES[FAST], "/mnt/lustre/fast"),
        ]

    def test_a_name_that_was_not_resolved_is_an_error(self) -> None:
        given = cluster()
        pool = given.pool("a3u")
        assert pool is not None
        with pytest.raises(FlexError, match="its address and share aren't known"):
            list(mounts_of(given, pool, {}))

    def test_names_are_asked_for_once_and_without_their_url(self) -> None:
        url = f"https://file.googleapis.com/v1/{DATA}"
        assert names_of(cluster({"filestores": [url, HOME]})) == (HOME, DATA)

    def test_filestore_and_lustre_tell_what_to_mount(self) -> None:
        filestore = {
            "networks": [{"ipAddresses": ["10.1.2.3"]}],
            "fileShares": [{"name": "vol1", "capacityGb": "1024"}],
        }
        assert filestore_share(filestore, HOME) == Share("nfs", "10.1.2.3:/vol1")
        assert lustre_share({"mountPoint": "10.0.0.4@tcp:/fast"}, FAST).kind == "lustre"

    @pytest.mark.parametrize("instance", [{}, {"state": "CREATING", "networks": [{}]}])
    def test_an_instance_that_is_not_ready_is_an_error(self, instance: dict[str, Any]) -> None:
        with pytest.raises(FlexError, match="READY"):
            filestore_share(instance, HOME)
        with pytest.raises(FlexError, match="ACTIVE"):
            lustre_share(instance, FAST)

    def test_home_may_be_lustre_and_every_missing_name_is_told(self) -> None:
        given = cluster({"filestores": [DATA], "lustres": [FAST]})
        there = {f"https://lustre.googleapis.com/v1/{HOME}": {"mountPoint": "1.2.3.4@tcp:/h"}}

        def fetch(url: str) -> Mapping[str, Any]:
            if url not in there:
                raise FlexError("not found (404)", where=url)
            return there[url]

        with pytest.raises(InputErrors) as caught:
            resolve_storage(given, fetch)
        assert [error.where.rpartition("/")[2] for error in caught.value.errors] == ["data", "fast"]
        alone = resolve_storage(cluster(), fetch)
        assert alone == {HOME: Share("lustre", "1.2.3.4@tcp:/h")}

    @pytest.mark.parametrize(
        ("answers", "what", "fix"),
        [
            (
                {"file": FlexError("HTTP 404", fix="look"), "lustre": FlexError("off", fix="on")},
                "as Filestore: HTTP 404; as Lustre: off",
                "look, or on",
            ),
            ({"file": FlexError("gone"), "lustre": FlexError("gone")}, "gone", ""),
            (
                {"file": {"state": "CREATING"}, "lustre": FlexError("HTTP 404", fix="look")},
                "the Filestore instance has no address or no share yet (state CREATING)",
                "wait until it is READY",
            ),
            (
                {"file": FlexError("HTTP 404", fix="look"), "lustre": {"state": "CREATING"}},
                "the Lustre instance has no mount point yet (state CREATING)",
                "wait until it is ACTIVE",
            ),
        ],
    )
    def test_a_home_of_either_kind_that_cant_be_had_is_told_as_both(
        self, answers: dict[str, Any], what: str, fix: str
    ) -> None:
        def fetch(url: str) -> Mapping[str, Any]:
            answer = answers[url.removeprefix("https://").partition(".")[0]]
            if isinstance(answer, FlexError):
                raise answer
            found: Mapping[str, Any] = answer
            return found

        with pytest.raises(InputErrors) as caught:
            resolve_storage(cluster(), fetch)
        [error] = caught.value.errors
        assert (error.what, error.fix) == (what, fix)

    def test_a_url_or_a_pools_list_says_which_kind_an_instance_is(self) -> None:
        url = "https://{}.googleapis.com/v1/{}"
        homes = (HOME, url.format("file", HOME), url.format("lustre", HOME))
        found = [services_of(cluster(home_directory_storage=home), HOME) for home in homes]
        assert found == [(FILESTORE, LUSTRE), (FILESTORE,), (LUSTRE,)]
        given = cluster({"filestores": [DATA], "lustres": [FAST]})
        assert services_of(given, DATA) == (FILESTORE,)
        assert services_of(given, FAST) == (LUSTRE,)
