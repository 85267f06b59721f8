"""make-secrets.sh: what is given is kept, what is not is random, a mistake is refused before anything is printed."""

import base64
import subprocess
from pathlib import Path

import yaml

from conftest import ROOT


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "k8s/make-secrets.sh", *map(str, arguments)], capture_output=True, text=True)


def secrets(*arguments: object) -> dict[str, dict[str, str]]:
    process = run(*arguments)
    assert process.returncode == 0, process.stderr
    documents = [document for document in yaml.safe_load_all(process.stdout) if document]
    assert all(d["kind"] == "Secret" and d["metadata"]["namespace"] == "babelray" for d in documents)
    return {
        d["metadata"]["name"]: {key: base64.b64decode(value).decode() for key, value in d["data"].items()}
        for d in documents
    }


def test_random_values_are_long_and_new_each_time() -> None:
    first, second = secrets(), secrets()
    assert set(first) == {"ray-token", "mlflow-user", "mlflow-server", "postgres", "redis"}
    made = [(name, key) for name in first for key in first[name] if key != "MLFLOW_TRACKING_USERNAME"]
    assert all(len(first[name][key]) == 64 for name, key in made)
    assert len({first[name][key] for name, key in made} | {second[name][key] for name, key in made}) == 2 * len(made)


def test_the_example_is_as_good_as_no_file() -> None:
    assert {name: set(data) for name, data in secrets(ROOT / "k8s/secrets.example.env").items()} == {
        name: set(data) for name, data in secrets().items()
    }


def test_given_values_are_kept_to_the_letter(tmp_path: Path) -> None:
    file = tmp_path / "secrets.env"
    file.write_text(
        '# mine\n\nAWS_ACCESS_KEY_ID=id\nAWS_SECRET_ACCESS_KEY=a/b+c==\nMLFLOW_TRACKING_PASSWORD=x "y" $z: \\ü'
    )
    made = secrets(file)
    assert made["s3"] == {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "a/b+c=="}
    assert made["mlflow-user"] == {
        "MLFLOW_TRACKING_USERNAME": "babelray",
        "MLFLOW_TRACKING_PASSWORD": 'x "y" $z: \\ü',
    }


def test_mistakes_are_refused_and_nothing_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "secrets.env"
    for text, complaint in (("AWS_KEY=x", "unknown name AWS_KEY"), ("AWS_ACCESS_KEY_ID=x", "without AWS_SECRET")):
        file.write_text(text)
        process = run(file)
        assert process.returncode == 1 and process.stdout == ""
        assert complaint in process.stderr and str(file) in process.stderr
    assert run(tmp_path / "missing").returncode != 0
