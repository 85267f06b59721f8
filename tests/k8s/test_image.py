"""The Dockerfile and what its images install: exact, with hashes, within constraints.txt, and not as root."""

import fnmatch
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from conftest import ROOT

TARGETS = ("cpu", "gpu", "mlflow")
LINE = re.compile(r"(?P<name>[\w.-]+)==(?P<version>\S+) --hash=sha256:[0-9a-f]{64}")


def load_lock() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock", ROOT / "k8s/image/lock.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pins(target: str) -> dict[str, Version]:
    """What a target installs, from both of its files; every line must be a pin with a hash."""
    files = [path for path in (ROOT / "k8s/image").glob("*.txt") if path.stem in (target, f"{target}-source")]
    lines = [line for path in files for line in path.read_text().splitlines() if not line.startswith("#")]
    matches = [LINE.fullmatch(line) for line in lines]
    assert all(matches), [line for line, match in zip(lines, matches, strict=True) if not match]
    found = {canonicalize_name(match["name"]): Version(match["version"]) for match in matches if match}
    assert len(found) == len(lines)
    return found


def constraints() -> dict[str, Version]:
    lines = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in lines}


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_installed_was_tested(target: str) -> None:
    tested = constraints()
    differ = {
        name: (str(version), str(tested[name]))
        for name, version in pins(target).items()
        if name in tested and version.public != tested[name].public
    }
    assert differ == {}, "constraints.txt has changed: run .venv/bin/python k8s/image/lock.py"


@pytest.mark.parametrize("target", TARGETS)
def test_all_that_is_asked_for_is_installed(target: str) -> None:
    installed = pins(target)
    wanted = [Requirement(text) for text in load_lock().requirements(target)]
    missing = [
        str(requirement)
        for requirement in wanted
        if (version := installed.get(canonicalize_name(requirement.name))) is None
        or version not in requirement.specifier
    ]
    assert missing == [], "pyproject.toml has changed: run .venv/bin/python k8s/image/lock.py"


def test_each_device_has_its_own_torch() -> None:
    assert pins("cpu")["torch"].local == "cpu"
    assert pins("gpu")["torch"].local is None
    assert not any(name.startswith("nvidia-") for name in pins("cpu"))
    assert "nvidia-nccl-cu13" in pins("gpu")
    assert "torch" not in pins("mlflow") and {"psycopg2-binary", "flask-wtf", "boto3"} <= pins("mlflow").keys()


def stages() -> dict[str, list[str]]:
    """The instructions of each stage of the Dockerfile."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    found: dict[str, list[str]] = {}
    for line in (line for line in text.splitlines() if line and not line.startswith("#")):
        if match := re.fullmatch(r"FROM (\S+) AS ([\w-]+)", line):
            found[match[2]] = []
        elif found:
            found[list(found)[-1]].append(line)
    return found


def test_images_do_not_run_as_root() -> None:
    for target in TARGETS:
        assert stages()[target][-1] == "USER 1000:1000"


def test_every_install_has_hashes_or_is_the_project_itself() -> None:
    installs = [
        part for lines in stages().values() for line in lines for part in line.split("&&") if "pip install" in part
    ]
    assert len(installs) == 7
    for install in installs:
        assert "--no-deps" in install
        assert "--require-hashes" in install or "--editable ." in install


def test_what_is_copied_is_there_and_is_not_ignored() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copies = [line.split()[1:-1] for lines in stages().values() for line in lines if line.startswith("COPY k8s")]
    sources = [source for copy in copies for source in copy]
    assert sorted(sources) == sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "k8s/image").glob("*.txt"))
    assert all(any(fnmatch.fnmatch(source, pattern) for pattern in allowed) for source in sources)
    for name in allowed:
        assert list(ROOT.glob(name)) or name == "tune"  # which comes with the sweeps


def test_the_secrets_and_the_environment_stay_outside() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert next(line for line in lines if not line.startswith("#")) == "*"
    assert not any(fnmatch.fnmatch("k8s/secrets.env", line[1:]) for line in lines if line.startswith("!"))
    assert Path(ROOT / "k8s/.gitignore").read_text().splitlines()[-1] == "secrets.env"
