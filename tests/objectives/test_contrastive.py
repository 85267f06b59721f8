import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from babelray.errors import DataError
from babelray.lexicon.pairs import write_induced
from babelray.objectives.contrastive import Contrastive, ContrastiveConfig, paper_terms, ranking_terms
from babelray.storage import Place
from babelray.training.materials import ArtifactMaterials
from few_materials import WORDS


def by_definition(x: torch.Tensor, y: torch.Tensor, same: list[list[bool]], scale: float) -> float:
    """Both directions, one term at a time."""
    cosine = [[torch.nn.functional.cosine_similarity(a, b, dim=0).item() for b in y] for a in x]
    count, total = len(x), 0.0
    for table in (cosine, [list(row) for row in zip(*cosine, strict=True)]):
        for i in range(count):
            allowed = [j for j in range(count) if j == i or not same[i][j]]
            total -= math.log(math.exp(scale * table[i][i]) / sum(math.exp(scale * table[i][j]) for j in allowed)) / (
                2 * count
            )
    return total


def test_same_as_the_definition_with_false_negatives_left_out() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(5, 4), torch.randn(5, 4)
    same = torch.eye(5, dtype=torch.bool)
    same[1, 3] = same[3, 1] = True
    assert ranking_terms(x, y, same, 20.0).mean().item() == pytest.approx(
        by_definition(x, y, same.tolist(), 20.0), rel=1e-4
    )


def test_same_as_sentence_transformers() -> None:
    """Their loss, one direction, on the same vectors; ours averages both."""
    losses = pytest.importorskip("sentence_transformers.losses")
    torch.manual_seed(0)
    x, y = torch.randn(8, 16), torch.randn(8, 16)
    theirs = losses.MultipleNegativesRankingLoss(model=None, scale=20.0)
    expected = [theirs.compute_loss_from_embeddings([a, b], None) for a, b in ((x, y), (y, x))]
    ours = ranking_terms(x, y, torch.eye(8, dtype=torch.bool), 20.0).mean()
    assert ours.item() == pytest.approx(sum(loss.item() for loss in expected) / 2, rel=1e-4)


def test_a_translation_is_never_a_negative() -> None:
    """Two pairs with the same translation: moving one onto the other's target must not raise the loss."""
    x = torch.eye(3)
    y = torch.stack([x[0], x[0], x[2]])
    same = torch.eye(3, dtype=torch.bool)
    same[0, 1] = same[1, 0] = True
    masked = ranking_terms(torch.stack([x[0], x[0], x[2]]), y, same, 20.0).mean().item()
    unmasked = ranking_terms(torch.stack([x[0], x[0], x[2]]), y, torch.eye(3, dtype=torch.bool), 20.0).mean().item()
    assert masked < 1e-6 < 0.4 < unmasked


def test_pairs_come_from_where_the_recipe_says(materials) -> None:
    words = {"words": set(WORDS["de"]), "induced": {"schläft"}, "sentences": {"Die Katze schläft.", "Ein Hund."}}
    for pairs, expected in words.items():
        batch = Contrastive(ContrastiveConfig(pairs=pairs, batch_size=30), materials).batch(step=0)
        rows = zip(batch["source_ids"], batch["source_mask"], strict=True)
        found = {tuple(ids[: int(mask.sum())].tolist()) for ids, mask in rows}
        assert found == {tuple(materials.tokenizer(text)["input_ids"]) for text in expected}


def test_materials_read_the_dictionary_that_was_induced(tiny_encoder: str, tmp_path: Path) -> None:
    place = Place.parse(tmp_path)
    write_induced(place / "dictionary" / "de-en.tsv", [("Katze", "cat"), ("Hund", "dog")], [0.5, 0.25])
    found = ArtifactMaterials(tiny_encoder, place, place, ["en", "de"], "en", 1, {})
    assert found.induced("de") == (["Katze", "Hund"], ["cat", "dog"])
    with pytest.raises(DataError, match="aligned vectors"):
        ArtifactMaterials(tiny_encoder, place, None, ["en", "de"], "en", 1, {}).induced("de")


def test_hard_negatives_are_in_the_denominator_but_no_translation_is() -> None:
    torch.manual_seed(0)
    x, y, hard = torch.randn(3, 4), torch.randn(3, 4), torch.randn(6, 4)
    translates = torch.zeros(3, 6, dtype=torch.bool)
    translates[0, 4] = True
    alone = torch.eye(3, dtype=torch.bool)
    found = ranking_terms(x, y, alone, 20.0, hard, translates)
    cosine = torch.nn.functional.cosine_similarity
    for i in range(3):
        allowed = [hard[j] for j in range(6) if not translates[i, j]]
        forward = torch.stack([20 * cosine(x[i], z, dim=0) for z in (*y, *allowed)])
        backward = torch.stack([20 * cosine(z, y[i], dim=0) for z in x])
        expected = -(forward.log_softmax(0)[i] + backward.log_softmax(0)[i]) / 2
        assert found[i].item() == pytest.approx(expected.item(), rel=1e-4)


def test_negatives_are_mined_before_training_and_never_mislabelled(materials) -> None:
    """`Katze` also translates to `kitty` and `cat` is also `Kater`: neither is ever a negative of the other."""
    materials.dictionary = lambda code: (
        ["Katze", "Katze", "Kater", "Hund", "Bett"],
        ["cat", "kitty", "cat", "dog", "bed"],
    )
    objective = Contrastive(ContrastiveConfig(pairs="words", batch_size=64, hard_negatives=2), materials)
    objective.start(torch.device("cpu"))
    hub = {"cat", "kitty", "dog", "bed"}
    assert set(objective.hard["de", "forth", "Katze"]) == {"dog", "bed"}
    assert (
        set(objective.hard["de", "forth", "Hund"]) < hub - {"dog"} and len(objective.hard["de", "forth", "Hund"]) == 2
    )
    whole = objective.whole(step=0)
    sources, targets = zip(
        *(tuple(side[row] for side in objective.pairs["de"]) for _, row in objective.examples(0)), strict=True
    )
    known = {("Katze", "cat"), ("Katze", "kitty"), ("Kater", "cat"), ("Hund", "dog"), ("Bett", "bed")}
    negatives = objective._hard(objective.examples(0), "forth")
    assert whole["same"].shape == (64, 64) and whole["forth"].shape == (64, 128)
    for i, source in enumerate(sources):
        for j, target in enumerate(targets):
            related = (source, target) in known or (sources[j], targets[i]) in known
            assert whole["same"][i, j] == (related or source == sources[j])
        for j, negative in enumerate(negatives):
            assert whole["forth"][i, j] == ((source, negative) in known)


def test_the_papers_form_as_it_is_written() -> None:
    torch.manual_seed(0)
    x, y, hard = torch.randn(4, 5), torch.randn(4, 5), torch.randn(4, 3, 5)
    same = torch.eye(4, dtype=torch.bool)
    same[0, 2] = same[2, 0] = True
    translates = torch.zeros(4, 3, dtype=torch.bool)
    translates[1, 0] = translates[3] = True
    found = paper_terms(x, y, same, 20.0, hard, translates)
    for i in range(4):
        cosine = [20 * torch.nn.functional.cosine_similarity(x[i], z, dim=0).item() for z in y]
        expected = -cosine[i] + math.log(sum(math.exp(c) for j, c in enumerate(cosine) if not same[i, j]))
        own = [20 * torch.nn.functional.cosine_similarity(x[i], z, dim=0).item() for z in hard[i]]
        allowed = [c for k, c in enumerate(own) if not translates[i, k]]
        expected += math.log(sum(map(math.exp, allowed))) if allowed else 0.0
        assert found[i].item() == pytest.approx(expected, rel=1e-4)
    alone = paper_terms(x[:1], y[:1], torch.ones(1, 1, dtype=torch.bool), 20.0)
    assert torch.isfinite(alone).all(), "a pair without any negative"


@pytest.mark.parametrize("form", ["softmax", "paper"])
def test_both_ways_and_words_of_the_vocabulary(materials, form: str) -> None:
    """`Katze` is `cat` and French `chat` is `cat`: neither is a negative of `cat`, whichever language it stands in."""
    materials.languages = ["en", "de", "fr"]
    pairs = {"de": (["Katze", "Hund"], ["cat", "dog"]), "fr": (["chat", "chien"], ["cat", "dog"])}
    materials.dictionary = lambda code: pairs[code]
    vocabulary = {"en": ["bed", "cat"], "de": ["Bett", "Haus"], "fr": ["lit", "chat"]}
    materials.vocabulary = lambda code, count: vocabulary[code][:count]
    config = ContrastiveConfig(
        pairs="words", batch_size=16, hard_negatives=2, candidates=2, both_ways=True, special_tokens=True, form=form
    )
    objective = Contrastive(config, materials)
    objective.start(torch.device("cpu"))
    assert set(objective.hard["de", "forth", "Katze"]) == {"dog", "bed"}
    assert set(objective.hard["fr", "back", "cat"]) == {"chien", "lit"}
    assert set(objective.hard["de", "back", "cat"]) < {"Hund", "Bett", "Haus"}
    whole, examples = objective.whole(0), objective.examples(0)
    for i, (code, row) in enumerate(examples):
        for j, negative in enumerate(objective._hard(examples, "back")):
            right = {"cat": {"Katze", "chat"}, "dog": {"Hund", "chien"}}[pairs[code][1][row]]
            assert whole["back"][i, j] == (negative in right)
    model = materials.initial_encoder()
    batch = objective.batch(0)
    assert torch.equal(batch["source_pooled"], batch["source_mask"].bool()), "special tokens count"
    vectors = objective.vectors(SimpleNamespace(base_model=model), batch)
    assert vectors.shape == (16, 6, 32)
    terms = objective.whole_terms(vectors, whole)
    assert terms.shape == (16,) and torch.isfinite(terms).all()


def test_only_the_first_pairs_are_learned_but_all_are_known(materials) -> None:
    materials.dictionary = lambda code: (["Katze", "Katze", "Hund"], ["cat", "kitty", "dog"])
    objective = Contrastive(ContrastiveConfig(pairs="words", batch_size=8, limit=1), materials)
    assert objective.pairs["de"] == (["Katze"], ["cat"])
    assert objective.translations(("de", "forth", "Katze")) == {"cat", "kitty"}
