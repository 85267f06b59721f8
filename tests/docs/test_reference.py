"""The generated pages know every key, component and command, and LaTeX becomes MathML."""

from __future__ import annotations

import re

import pytest
from pydantic import Field

import command_reference
import recipe_reference
import repository_pages
from babelray.config import Config, operational
from babelray.recipe.recipe import Recipe
from equations import Equations
from recipe_reference import COMPONENTS, Sections, components_page, recipe_page


class Inner(Config):
    """Keys below."""

    size: int = operational(3, ge=1, lt=10)
    """How large {lang} <is>."""


class Outer(Config):
    """Keys above."""

    inner: Inner = Inner()
    names: list[str] = Field(min_length=1)
    """One or more."""
    bare: float = 0.5


def test_keys_are_described_by_type_limits_default_and_docstring() -> None:
    sections = Sections()
    sections.add("outer", Outer)
    text = str(sections)
    assert "`inner`{ .key } [keys](#outerinner)\n:   Keys below." in text
    assert "`names`{ .key } list of text, **required**\n:   One or more." in text
    assert "`bare`{ .key } number, default `0.5`\n:   <!-- -->" in text
    assert "`size`{ .key } integer, ≥ 1, &lt; 10, *operational*, default `3`\n:   How large {lang} &lt;is>." in text
    assert text.index("## outer") < text.index("## `outer.inner`")


def test_every_key_of_a_recipe_is_on_its_page() -> None:
    page = recipe_page()
    for name in Recipe.model_fields:
        assert f"\n`{name}`{{ .key }}" in page, name
    for path in ("corpus.cleaning", "corpus.dictionary", "encoder.scratch", "pretrain.validation", "align.induction"):
        assert f"## `{path}`" in page


@pytest.mark.parametrize("components", COMPONENTS, ids=lambda components: components.page)
def test_every_component_has_a_section_with_all_its_keys(components) -> None:
    page = components_page(components)
    for name in components.registry:
        assert f"\n## `{name}`\n" in page
        for field in components.registry[name].model_fields:
            assert field == components.registry.tag or f"`{field.strip('_')}`{{ .key }}" in page, field


def test_links_between_keys_lead_to_a_section() -> None:
    for path, page in recipe_reference.pages():
        anchors = {recipe_reference.anchor(title) for title in re.findall(r"^## (.+)$", page, re.MULTILINE)}
        assert {*re.findall(r"\]\(#([\w-]+)\)", page)} <= anchors, path


def test_every_command_and_option_is_described() -> None:
    page = command_reference.page()
    for name in ("run", "align", "submit", "vectors neighbours", "runs clean"):
        assert f"\n## babelray {name}\n" in page
    assert "`--force STAGE`" in page and "`--lowercase, --no-lowercase`" in page
    assert "babelray corpus inspect" not in re.findall(r"^## (.+)$", page, re.MULTILINE)


def test_equations_become_mathml_outside_of_other_code() -> None:
    equations = Equations()
    text = "Let $`x_i`$ be:\n\n```math\n\\frac{1}{2} \\sum_i x_i\n```\n\n```bash\necho $HOME\n```\n``$`y`$``\n"
    markdown = equations.extract(text)
    assert "frac" not in markdown and "echo $HOME" in markdown and "$`y`$" in markdown and len(equations.converted) == 2
    html = equations.insert(markdown)
    assert html.count("<math") == 2 and 'display="block"' in html and "<mfrac>" in html


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("[a](SECURITY.md)", "[a](security.md)"),
        ("[a](k8s/README.md#x)", "[a](../guides/kubernetes.md#x)"),
        ("[forty.yaml](jobs/recipes/forty.yaml)", "[forty.yaml](../reference/shipped-recipes.md#forty)"),
        ("[`loop.py`](platform/babelray/training/loop.py)", "`loop.py`"),
        ("[b](https://example.org)", "[b](https://example.org)"),
    ],
)
def test_links_of_other_documents_lead_to_pages(markdown: str, expected: str) -> None:
    assert repository_pages.with_links(markdown, "CONTRIBUTING.md", "development/contributing.md") == expected
