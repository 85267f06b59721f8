"""The layers of the package hold for every import, and the picture of them is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.layers import (
    ALGORITHMS,
    FOUNDATION,
    INSIDE_A_LAYER,
    LAYERS,
    PACKAGE,
    Import,
    documented_figure,
    figure,
    imports,
    violations,
)


def test_every_import_leads_to_a_lower_layer() -> None:
    problems = violations([*imports()])
    assert not problems, "\n".join(["", *problems])


def test_every_package_is_in_one_layer() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if any(path.glob("*.py"))}
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    listed = [name for layer in LAYERS for name in layer]
    assert len(listed) == len({*listed})
    assert {*listed} == packages | modules


def test_the_picture_is_up_to_date() -> None:
    assert documented_figure() == figure([*imports()]), "run: python tests/support/layers.py"


def file(name: str) -> Path:
    return PACKAGE / name


@pytest.mark.parametrize(
    ("importer", "module", "reason"),
    [
        ("mapping/x.py", "babelray.evaluation.bli", "layer 3 imports layer 5"),
        ("mapping/x.py", "babelray.objectives.mlm", "layer 3 imports layer 3"),
        ("mapping/x.py", "ray.data", "algorithms work without it"),
        ("pipeline/x.py", "babelray.stages.align", "layer 7 imports layer 7"),
        ("errors.py", "babelray.config", "layer 0 imports layer 0"),
        ("storage/x.py", "babelray", "layer 0 imports layer 9"),
        ("text/x.py", "babelray.utils", "utils is in no layer"),
        ("text/x.py", ".read", "imports are absolute"),
    ],
)
def test_a_violation_is_reported_with_file_and_line(importer: str, module: str, reason: str) -> None:
    (problem,) = violations([Import(file(importer), 7, module)])
    assert f"platform/babelray/{importer}:7" in problem and module in problem and reason in problem


@pytest.mark.parametrize(
    ("importer", "module"),
    [
        ("mapping/x.py", "babelray.mapping.linear"),
        ("mapping/x.py", "babelray.vectors.retrieval"),
        ("mapping/x.py", "torch"),
        ("stages/x.py", "babelray.pipeline.stage"),
        ("storage/x.py", "babelray.errors"),
        ("languages.py", "babelray.errors"),
        ("cluster/x.py", "ray"),
    ],
)
def test_what_is_allowed(importer: str, module: str) -> None:
    assert violations([Import(file(importer), 1, module)]) == []


def test_imports_are_found_wherever_they_are(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "import a\nfrom b.c import d\nif TYPE_CHECKING:\n    import e\ndef f():\n    from babelray import errors, g\n"
    )
    assert [(one.line, one.module) for one in imports(tmp_path)] == [
        (1, "a"),
        (2, "b.c"),
        (4, "e"),
        (6, "babelray.errors"),
        (6, "babelray"),
    ]


def test_the_explicit_orders_are_inside_a_layer() -> None:
    for order in (FOUNDATION, *INSIDE_A_LAYER):
        assert any({*order} <= {*layer} for layer in LAYERS)
    assert {*ALGORITHMS} <= {name for layer in LAYERS for name in layer}
