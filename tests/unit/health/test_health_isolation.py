"""Nothing but the standard library and this package, on Python 3.9 and later."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEALTH = ROOT / "slurm_flex/health"
FILES = sorted(HEALTH.glob("*.py")) + [
    ROOT / "scripts" / name for name in ("prolog.py", "epilog.py", "health.py")
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_the_standard_library_and_this_package_are_imported(path):
    for statement in ast.walk(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0
            names = [statement.module or ""]
        else:
            continue
        for name in names:
            assert name.split(".")[0] in sys.stdlib_module_names or name.startswith(
                "slurm_flex.health"
            ), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_grammar_is_python_3_9s(path):
    ast.parse(path.read_text(), feature_version=(3, 9))


def test_the_package_folder_alone_is_enough(tmp_path):
    (tmp_path / "slurm_flex").mkdir()
    shutil.copy(ROOT / "slurm_flex/__init__.py", tmp_path / "slurm_flex")
    shutil.copytree(HEALTH, tmp_path / "slurm_flex/health")
    shutil.copytree(ROOT / "etc/health.d", tmp_path / "etc/health.d")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
        "from slurm_flex.health.cli import main; code = main(['--list', '--json']); "
        "print(sorted(n for n in sys.modules if 'pydantic' in n or 'site-packages' in "
        "str(getattr(sys.modules[n], '__file__', ''))), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-IS", "-c", code], env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "[]\n"
    assert '"name": "gpu-count"' in done.stdout


def test_no_file_is_longer_than_one_idea():
    assert max(len(path.read_text().splitlines()) for path in FILES) <= 350
