import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from babelray.errors import DataError
from babelray.lexicon.pairs import write_induced
from babelray.objectives.contrastive import Contrastive, ContrastiveConfig, paper_terms, ranking_terms
from babelray.storage import Location
from babelray.training.training_data import ArtifactTrainingData
from support.small_training_data import WORDS


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


def test_pairs_come_from_where_the_recipe_says(training_data) -> None:
    words = {"words": set(WORDS["de"]), "induced": {"schläft"}, "sentences": {"Die Katze schläft.", "Ein Hund."}}
    for pairs, expected in words.items():
        batch = Contrastive(ContrastiveConfig(pairs=pairs, batch_size=30), training_data).batch(step=0)
        rows = zip(*(batch[name][batch["rows"][:, 0]] for name in ("ids", "mask")), strict=True)
        found = {tuple(ids[: int(mask.sum())].tolist()) for ids, mask in rows}
        assert found == {tuple(training_data.tokenizer(text)["input_ids"]) for text in expected}


def test_training_data_read_the_induced_dictionary(tiny_encoder: str, tmp_path: Path) -> None:
    place = Location.parse(tmp_path)
    write_induced(place / "dictionary" / "de-en.tsv", [("Katze", "cat"), ("Hund", "dog")], [0.5, 0.25])
    found = ArtifactTrainingData(tiny_encoder, place, place, ["en", "de"], "en", 1, {})
    assert found.induced_dictionary("de") == (["Katze", "Hund"], ["cat", "dog"])
    with pytest.raises(DataError, match="aligned vectors"):
        ArtifactTrainingData(tiny_encoder, place, None, ["en", "de"], "en", 1, {}).induced_dictionary("de")


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


def test_negatives_are_mined_before_training_and_never_mislabelled(training_data) -> None:
    """`Katze` also translates to `kitty` and `cat` is also `Kater`: neither is ever a negative of the other."""
    training_data.dictionary = lambda code: (
        ["Katze", "Katze", "Kater", "Hund", "Bett"],
        ["cat", "kitty", "cat", "dog", "bed"],
    )
    objective = Contrastive(ContrastiveConfig(pairs="words", batch_size=64, hard_negatives=2), training_data)
    objective.start(torch.device("cpu"))
    hub = {"cat", "kitty", "dog", "bed"}
    assert set(objective.hard_negatives["de", "forward", "Katze"]) == {"dog", "bed"}
    assert (
        set(objective.hard_negatives["de", "forward", "Hund"]) < hub - {"dog"}
        and len(objective.hard_negatives["de", "forward", "Hund"]) == 2
    )
    global_context = objective.global_context(step=0)
    sources, targets = zip(
        *(tuple(side[row] for side in objective.pairs["de"]) for _, row in objective.examples(0)), strict=True
    )
    known = {("Katze", "cat"), ("Katze", "kitty"), ("Kater", "cat"), ("Hund", "dog"), ("Bett", "bed")}
    negatives = objective._negatives(objective.examples(0), "forward")
    assert global_context["same"].shape == (64, 64) and global_context["forward"].shape == (64, 128)
    for i, source in enumerate(sources):
        for j, target in enumerate(targets):
            related = (source, target) in known or (sources[j], targets[i]) in known
            assert global_context["same"][i, j] == (related or source == sources[j])
        for j, negative in enumerate(negatives):
            assert global_context["forward"][i, j] == ((source, negative) in known)


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
def test_symmetric_negatives_and_words_of_the_vocabulary(training_data, form: str) -> None:
    """`Katze` is `cat` and French `chat` is `cat`: neither is a negative of `cat`, whichever language it stands in."""
    training_data.languages = ["en", "de", "fr"]
    pairs = {"de": (["Katze", "Hund"], ["cat", "dog"]), "fr": (["chat", "chien"], ["cat", "dog"])}
    training_data.dictionary = lambda code: pairs[code]
    vocabulary = {"en": ["bed", "cat"], "de": ["Bett", "Haus"], "fr": ["lit", "chat"]}
    training_data.vocabulary = lambda code, count: vocabulary[code][:count]
    config = ContrastiveConfig(
        pairs="words",
        batch_size=16,
        hard_negatives=2,
        candidates=2,
        symmetric_negatives=True,
        special_tokens=True,
        form=form,
    )
    objective = Contrastive(config, training_data)
    objective.start(torch.device("cpu"))
    assert set(objective.hard_negatives["de", "forward", "Katze"]) == {"dog", "bed"}
    assert set(objective.hard_negatives["fr", "backward", "cat"]) == {"chien", "lit"}
    assert set(objective.hard_negatives["de", "backward", "cat"]) < {"Hund", "Bett", "Haus"}
    global_context, examples = objective.global_context(0), objective.examples(0)
    for i, (code, row) in enumerate(examples):
        for j, negative in enumerate(objective._negatives(examples, "backward")):
            right = {"cat": {"Katze", "chat"}, "dog": {"Hund", "chien"}}[pairs[code][1][row]]
            assert global_context["backward"][i, j] == (negative in right)
    model = training_data.initial_encoder()
    batch = objective.batch(0)
    assert torch.equal(batch["pooled"], batch["mask"].bool()), "special tokens count"
    vectors = objective.vectors(SimpleNamespace(base_model=model), batch)
    assert vectors.shape == (16, 6, 32)
    loss_terms = objective.global_terms(vectors, global_context)
    assert loss_terms.shape == (16,) and torch.isfinite(loss_terms).all()


def test_only_the_first_pairs_are_learned_but_all_are_known(training_data) -> None:
    training_data.dictionary = lambda code: (["Katze", "Katze", "Hund"], ["cat", "kitty", "dog"])
    objective = Contrastive(ContrastiveConfig(pairs="words", batch_size=8, limit=1), training_data)
    assert objective.pairs["de"] == (["Katze"], ["cat"])
    assert objective.translations(("de", "forward", "Katze")) == {"cat", "kitty"}


def test_each_text_of_a_batch_is_read_once(training_data) -> None:
    """Vectors and gradients are those of every text read by itself, however often it is there."""
    objective = Contrastive(
        ContrastiveConfig(
            pairs="words", batch_size=48, hard_negatives=3, symmetric_negatives=True, special_tokens=True
        ),
        training_data,
    )
    objective.start(torch.device("cpu"))
    batch, examples = objective.batch(0), objective.examples(0)
    texts = [list(pair) for pair in zip(*(objective._texts(examples, side) for side in (0, 1)), strict=True)]
    for direction in ("forward", "backward"):
        hard = objective._negatives(examples, direction)
        for place, row in enumerate(texts):
            row += hard[3 * place : 3 * place + 3]
    assert len(batch["ids"]) == len({text for row in texts for text in row}) < 0.1 * 48 * 8
    weights = torch.randn(48, 8, 32, generator=torch.Generator().manual_seed(0))
    gradients = []
    for once in (True, False):
        model = training_data.initial_encoder().requires_grad_(True)
        if once:
            vectors = objective.vectors(SimpleNamespace(base_model=model), batch)
        else:
            encoded = {t: training_data.tokenizer([t], return_tensors="pt") for t in {t for row in texts for t in row}}
            alone = {t: model(**inputs).last_hidden_state.mean(1)[0] for t, inputs in encoded.items()}
            expected = torch.stack([torch.stack([alone[t] for t in row]) for row in texts])
            assert torch.allclose(vectors, expected, atol=1e-5)
            vectors = expected
        (vectors * weights).sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    assert all(torch.allclose(gradients[0][name], gradients[1][name], atol=1e-3) for name in gradients[0])


def test_two_workers_mislabel_no_translation(training_data) -> None:
    """Each sees half of a step and both gather; what counts as a negative is what the dictionary does not give.

    The batches' own texts are looked at, in the order of the workers, and the loss is written out over them.
    """
    given = {("Katze", "cat"), ("Katze", "kitty"), ("Kater", "cat"), ("Hund", "dog"), ("Köter", "dog"), ("Bett", "bed")}
    training_data.dictionary = lambda code: tuple(map(list, zip(*sorted(given), strict=True)))
    config = ContrastiveConfig(
        pairs="words", batch_size=16, hard_negatives=2, symmetric_negatives=True, sampling="epochs", special_tokens=True
    )
    objective = Contrastive(config, training_data)
    objective.start(torch.device("cpu"))
    model = SimpleNamespace(base_model=training_data.initial_encoder())
    batches = [objective.batch(3, part, parts=2) for part in (0, 1)]
    gathered = torch.cat([objective.vectors(model, batch) for batch in batches])
    words = {tuple(training_data.tokenizer(word)["input_ids"]): word for pair in given for word in pair}
    assert len(words) == 9, "the tokenizer tells them apart"
    rows = [
        [words[tuple(batch["ids"][i][batch["mask"][i].bool()].tolist())] for i in row]
        for batch in batches
        for row in batch["rows"].tolist()
    ]
    cosine = torch.nn.functional.cosine_similarity
    found = objective.global_terms(gathered, objective.global_context(3))
    for i, (source, target, *_) in enumerate(rows):
        forward, backward = (
            [cosine(gathered[i, 0], gathered[i, 1], dim=0)],
            [cosine(gathered[i, 0], gathered[i, 1], dim=0)],
        )
        for j, (other_source, other_target, *hard) in enumerate(rows):
            related = {(source, other_target), (other_source, target)} & given
            if not related and source != other_source and target != other_target:
                forward.append(cosine(gathered[i, 0], gathered[j, 1], dim=0))
                backward.append(cosine(gathered[j, 0], gathered[i, 1], dim=0))
            forward += [
                cosine(gathered[i, 0], gathered[j, 2 + k], dim=0) for k in (0, 1) if (source, hard[k]) not in given
            ]
            backward += [
                cosine(gathered[j, 4 + k], gathered[i, 1], dim=0) for k in (0, 1) if (hard[2 + k], target) not in given
            ]
        expected = -sum((20 * torch.stack(side)).log_softmax(0)[0] for side in (forward, backward)) / 2
        assert found[i].item() == pytest.approx(expected.item(), rel=1e-4)


BAD = {
    "one pair": ["Katze cat"],
    "duplicates": ["Katze cat", "Katze cat", "Hund dog", "Hund dog", "Katze cat"],
    "unseen by the tokenizer": ["\u200b \u200d", "\U0001f996 \U0001f995", "Katze cat"],
    "the same on both sides": ["taxi taxi", "bar bar", "Katze cat"],
}


@pytest.mark.parametrize("form", ["softmax", "paper"])
@pytest.mark.parametrize("special", [True, False], ids=["special", "subwords"])
@pytest.mark.parametrize("entries", BAD.values(), ids=BAD)
def test_odd_dictionaries_and_batches_larger_than_they_are(
    training_data, entries: list[str], special: bool, form: str
) -> None:
    """Losses and gradients are finite, no translation is a hard negative, and a lone pair has nothing to learn."""
    pairs = [tuple(entry.split(" ")) for entry in entries]
    training_data.dictionary = lambda code: tuple(map(list, zip(*pairs, strict=True)))
    config = ContrastiveConfig(
        pairs="words",
        batch_size=32,
        hard_negatives=2,
        symmetric_negatives=True,
        sampling="epochs",
        special_tokens=special,
        form=form,
    )
    objective = Contrastive(config, training_data)
    objective.start(torch.device("cpu"))
    for (_, direction, text), negatives in objective.hard_negatives.items():
        to_hub = direction == "forward"
        right = {b if to_hub else a for a, b in pairs if text == (a if to_hub else b)}
        assert not right & {*negatives} and len(negatives) <= len({*pairs}) - 1
    model = training_data.initial_encoder().requires_grad_(True)
    loss_terms = objective.global_terms(
        objective.vectors(SimpleNamespace(base_model=model), objective.batch(0)), objective.global_context(0)
    )
    loss_terms.mean().backward()
    assert loss_terms.shape == (32,) and loss_terms.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    if len({*pairs}) == 1 and form == "softmax":
        assert loss_terms.abs().max() < 1e-6


def test_a_dictionary_without_entries(training_data) -> None:
    training_data.dictionary = lambda code: ([], [])
    with pytest.raises(DataError, match="nothing to learn from"):
        Contrastive(ContrastiveConfig(pairs="words"), training_data)
