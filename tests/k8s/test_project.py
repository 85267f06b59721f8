"""What the manifests name exists: commands, recipes, options, ports, variables, images, features. Needs no kubectl."""

import importlib.util
import re
import shlex
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import babelray
from babelray.commands import app as cli
from babelray.recipe.load import load_recipe
from conftest import ROOT
from support import manifest_rules as rules
from support import manifests

IMAGES_OWN = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "PGDATA", "PGPASSWORD", "REDISCLI_AUTH"}
"""Read by the images of PostgreSQL and Redis, and by their clients."""


def written() -> list[Path]:
    return sorted(path for path in (ROOT / "k8s").rglob("*") if path.is_file())


def settings() -> dict[str, str]:
    maps = [m["data"] for m in manifests.base() if m["kind"] == "ConfigMap"]
    return {name: value for data in maps for name, value in data.items()}


def job_specs() -> dict[str, dict[str, Any]]:
    jobs = [m for m in manifests.base() if m["kind"] in ("RayJob", "RayCronJob")]
    return {m["metadata"]["name"]: m["spec"].get("jobTemplate", m["spec"]) for m in jobs}


def command(name: str, storage: Path) -> list[str]:
    """A job's command with its variables filled in, as the submitter's shell does."""
    values = settings() | {"BABELRAY_STORAGE": str(storage)}
    return shlex.split(string.Template(job_specs()[name]["entrypoint"]).substitute(values))


@pytest.mark.parametrize(("name", "force"), [("babelray-run", None), ("babelray-evaluation", "evaluate")])
def test_the_command_of_a_job_is_one_that_babelray_takes(name: str, force: str | None, tmp_path: Path) -> None:
    program, script, *arguments = command(name, tmp_path / "runs")
    assert program == "python"
    stage = Path(script).stem
    parser: Any = typer.main.get_command(cli.app)
    given = parser.commands[stage].make_context(stage, arguments).params
    assert given["force"] == force
    recipe = load_recipe(ROOT / given["recipe"], given["overrides"])
    assert recipe.storage == str(tmp_path / "runs")


def test_the_command_of_the_sweep_is_one_that_babelray_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, script, space, *overrides = command("babelray-sweep", tmp_path / "runs")
    from babelray.sweeping.space import load_sweep

    assert Path(script).stem == "sweep"
    monkeypatch.chdir(ROOT)  # as in the image: a space names its recipe from there
    sweep = load_sweep(space, overrides)
    assert sweep.recipe.storage == str(tmp_path / "runs")
    assert sweep.plan(sweep.recipe), "all files that it reads are in the image"


def test_there_are_three_jobs_and_their_variables_are_set() -> None:
    assert set(job_specs()) == {"babelray-run", "babelray-sweep", "babelray-evaluation"}
    for spec in job_specs().values():
        assert set(re.findall(r"\$(\w+)", spec["entrypoint"])) <= settings().keys()


def changed_settings(overlay: str) -> set[str]:
    """Names that an overlay sets in the ConfigMaps of base."""
    patches = yaml.safe_load((ROOT / f"k8s/overlays/{overlay}/kustomization.yaml").read_text()).get("patches", [])
    changed = [yaml.safe_load(p["patch"]) for p in patches if "patch" in p and "target" not in p]
    return {name for patch in changed if patch["kind"] == "ConfigMap" for name in patch["data"]}


def test_the_shipped_overlays_change_settings_that_are_there_and_add_what_is_asked_for() -> None:
    assert changed_settings("local") and changed_settings("local") <= settings().keys()
    assert changed_settings("gpu") == {"BABELRAY_USE_GPU"}


def package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def readers(variable: str) -> list[Path]:
    """The files that read a variable, by its prefix."""
    prefix = variable.partition("_")[0]
    if prefix == "MLFLOW":
        names = ("environment_variables.py", "cli/__init__.py", "utils/cli_args.py", "server/auth/__init__.py")
        return [package("mlflow") / name for name in names]
    if prefix == "AWS":
        return [package("botocore") / name for name in ("configprovider.py", "credentials.py")]
    if prefix == "RAY":
        return [package("ray") / "_common/usage/usage_constants.py"]
    return [ROOT / "k8s/base/jobs.yaml", *(ROOT / "platform/babelray").rglob("*.py")]


def variables() -> set[str]:
    pods = [pod for m in manifests.base() for pod in rules.pods(m)]
    pods += [pod for m in manifests.read(ROOT / "k8s/overlays/production/redis.yaml") for pod in rules.pods(m)]
    named = {v["name"] for pod in pods for c in pod.containers for v in c.get("env", [])}
    secrets = {key for m in made_secrets() if m["metadata"]["name"] != "ray-token" for key in m["data"]}
    named |= set().union(*map(changed_settings, manifests.OVERLAYS))
    return named | {name for name in settings() if name.isupper()} | {key for key in secrets if key.isupper()}


def made_secrets() -> list[dict[str, Any]]:
    script = subprocess.run([ROOT / "k8s/make-secrets.sh"], capture_output=True, text=True, check=True)
    return [document for document in yaml.safe_load_all(script.stdout) if document]


def test_every_variable_has_a_reader() -> None:
    unread = [
        name for name in variables() - IMAGES_OWN if not any(name in path.read_text("utf-8") for path in readers(name))
    ]
    assert unread == []
    some = {
        "MLFLOW_TRACKING_URI",
        "MLFLOW_FLASK_SERVER_SECRET_KEY",
        "BABELRAY_STORAGE",
        "BABELRAY_USE_GPU",
        "PGPASSWORD",
    }
    assert some <= variables()


def test_ray_listens_where_the_manifests_say() -> None:
    from ray._private import ray_constants

    (head, *workers) = rules.pods(manifests.one(manifests.base(), "RayCluster"))
    ports = {port["name"]: port["containerPort"] for port in head.containers[0]["ports"]}
    assert ports["dashboard"] == ray_constants.DEFAULT_DASHBOARD_PORT
    assert ports["gcs-server"] == ray_constants.DEFAULT_PORT
    public = (package("ray") / "dashboard/http_server_agent.py").read_text()
    public = public.partition("PUBLIC_EXACT_PATHS = [")[2].partition("]")[0]
    for pod in (head, *workers):
        for probe in ("readinessProbe", "livenessProbe"):
            get = pod.containers[0][probe]["httpGet"]
            assert get["port"] == ray_constants.DEFAULT_DASHBOARD_AGENT_LISTEN_PORT
            assert f'"{get["path"]}"' in public


def mlflow_server() -> dict[str, Any]:
    return next(rules.pods(manifests.one(manifests.base(), "Deployment", "mlflow"))).containers[0]


def test_mlflow_understands_its_command() -> None:
    assert mlflow_server()["command"] == ["mlflow", "server"]
    given = dict(argument.split("=", 1) for argument in mlflow_server()["args"])
    source = "".join((package("mlflow") / name).read_text() for name in ("cli/__init__.py", "utils/cli_args.py"))
    assert [option for option in given if f'"{option}"' not in source] == []
    assert int(given["--port"]) == mlflow_server()["ports"][0]["containerPort"]


def test_mlflow_answers_under_the_name_that_clients_use_and_no_other() -> None:
    from mlflow.server.security_utils import is_allowed_host_header

    given = dict(argument.split("=", 1) for argument in mlflow_server()["args"])
    allowed = given["--allowed-hosts"].split(",")
    client = settings()["MLFLOW_TRACKING_URI"].removeprefix("http://")
    assert is_allowed_host_header(allowed, client)
    assert is_allowed_host_header(allowed, "localhost:5000")
    assert not is_allowed_host_header(allowed, "evil.example:5000")


def test_mlflow_reads_its_users_from_the_database_and_has_no_default_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "auth.ini").write_text(settings()["auth.ini"])
    monkeypatch.setenv("MLFLOW_AUTH_CONFIG_PATH", str(tmp_path / "auth.ini"))
    path = package("mlflow") / "server/auth/config.py"  # its package asks for mlflow[auth], which only the image has
    spec = importlib.util.spec_from_file_location("auth_config", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "auth_config", module)
    spec.loader.exec_module(module)
    config = module.read_auth_config()
    uri = next(v["value"] for v in mlflow_server()["env"] if v["name"] == "MLFLOW_BACKEND_STORE_URI")
    assert config.database_uri == uri and uri.startswith("postgresql+psycopg2://")
    assert config.admin_password is None
    mounted = mlflow_server()["volumeMounts"][0]["mountPath"]
    told = next(v["value"] for v in mlflow_server()["env"] if v["name"] == "MLFLOW_AUTH_CONFIG_PATH")
    assert told == f"{mounted}/auth.ini"


def test_versions_are_those_of_the_project() -> None:
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert manifests.one(manifests.base(), "RayCluster")["spec"]["rayVersion"] == pins["ray"]
    tags = set(re.findall(r"image: babelray:(\S+)", "\n".join(p.read_text() for p in written() if p.suffix == ".yaml")))
    targets = re.findall(r"^FROM \S+ AS (\w+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert tags == {f"{babelray.__version__}-{target}" for target in ("cpu", "gpu", "mlflow")}
    assert {"cpu", "gpu", "mlflow"} <= set(targets)
    assert f"babelray:{babelray.__version__}-cpu" in (ROOT / "k8s/README.md").read_text()


def test_the_operator_is_told_of_the_features_that_are_used() -> None:
    (values,) = manifests.read(ROOT / "k8s/operator.yaml")
    enabled = {gate["name"] for gate in values["featureGates"] if gate["enabled"]}
    used = set().union(*(rules.features(m) for m in manifests.base()))
    assert used == enabled


def test_there_is_no_secret_and_no_registry_in_the_repository() -> None:
    documents = [d for p in written() if p.suffix == ".yaml" for d in manifests.read(p)]
    assert [d for d in documents if d.get("kind") == "Secret"] == []
    containers = [
        c
        for d in documents
        if d.get("kind") in ("Deployment", "StatefulSet", "RayCluster")
        for pod in rules.pods(d | {"spec": {"headGroupSpec": {"template": {"spec": {}}}, **d["spec"]}})
        for c in pod.containers
    ]
    literal = {v["name"]: v["value"] for c in containers for v in c.get("env", []) if "value" in v}
    assert [name for name in literal if re.search("PASSWORD|SECRET|TOKEN|_KEY", name)] == []
    assert [c["image"] for c in containers if "/" in c["image"]] == []
    assert len(containers) >= 6


def test_the_readme_names_what_is_there() -> None:
    text = (ROOT / "k8s/README.md").read_text()
    paths = set(re.findall(r"\b(?:k8s|tests|jobs)/[\w./-]*\w", text))
    assert [path for path in paths if not (ROOT / path).exists() and path != "k8s/secrets.env"] == []
    parts = {m["metadata"]["labels"]["babelray.io/part"] for m in manifests.base()}
    assert (
        set(re.findall(r"babelray\.io/part=(\w+)", text))
        == parts
        == {"services", "cluster", "run", "sweep", "evaluation"}
    )
    assert {f"k8s/overlays/{name}" for name in manifests.OVERLAYS} <= paths
