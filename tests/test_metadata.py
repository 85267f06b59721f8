"""The files around the package agree with it: version, commands, licence, addresses."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from babelray import __version__
from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
OTHERS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys(), "required by the format"
    assert str(citation["version"]) == __version__ and citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Homepage"]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]


def test_the_classifiers_are_true() -> None:
    assert PROJECT["requires-python"] == ">=3.11"
    assert "Typing :: Typed" in PROJECT["classifiers"] and (ROOT / "platform/babelray/py.typed").exists()
    assert not [line for line in PROJECT["classifiers"] if line.startswith("License")], "`license` says it"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_exists(path: Path) -> None:
    workflow = read(path)
    jobs = workflow["jobs"].values()
    assert workflow["permissions"] == {"contents": "read"} and all("timeout-minutes" in job for job in jobs)
    commands = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    for command in "\n".join(commands).splitlines():
        if command.startswith("."):
            assert (ROOT / command.split()[0]).stat().st_mode & 0o111, command
    versions = {
        step["with"]["python-version"] for job in jobs for step in job["steps"] if "python" in step.get("uses", "")
    }
    assert all(f"Programming Language :: Python :: {version}" in PROJECT["classifiers"] for version in versions)
    for job in jobs:
        targets = job.get("strategy", {}).get("matrix", {}).get("target", [])
        stages = re.findall(r"^FROM \S+ AS (\w+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        assert {*targets} <= {*stages}
    assert not re.search(r"\$\{\{ *github\.(ref_name|head_ref|event)", path.read_text()), "no text of others in a shell"


def test_continuous_integration_and_releases_are_described() -> None:
    assert [path.stem for path in WORKFLOWS] == ["release", "test"]
    assert ".ci/run" in (ROOT / ".github/workflows/test.yml").read_text()


def test_hooks_use_the_tools_of_the_environment() -> None:
    development = " ".join(PROJECT["optional-dependencies"]["dev"])
    for repository in read(ROOT / ".pre-commit-config.yaml")["repos"]:
        assert repository["repo"] == "local", "one version of each tool: that of constraints.txt"
        for hook in repository["hooks"]:
            program, *arguments = hook["entry"].split()
            tool = Path(program).name
            assert program.startswith(".venv/bin/")
            assert tool in development or (tool == "python" and (ROOT / arguments[0]).exists())


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_issue_templates_are_forms(path: Path) -> None:
    form = read(path)
    if path.stem == "config":
        assert all(link["url"].startswith(PROJECT["urls"]["Homepage"]) for link in form["contact_links"])
        return
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert form["name"] and form["description"] and len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)
