"""Train an encoder in a PyTorch loop of your own, with one of Babelray's losses.

    python examples/train_encoder.py [FOLDER]       # 30 s on two cores; FOLDER is where the encoder is written

babelray-mini learns from 190 shipped sentences and their translations into four languages; retrieval is measured on 50
other sentences before and after. `br.losses` has the other losses: `sinkhorn_divergence`, `static_dcca`, `word_l2`, …
For checkpoints, several workers and exact resumption, run a recipe instead (align_encoder.py).
"""

from __future__ import annotations

import random
import sys
from importlib.resources import as_file, files

import torch
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

import babelray as br

LANGUAGES = ("de", "fr", "sw", "tr")
STEPS = 30
BATCH = 32


def shipped_sentences(language: str) -> tuple[list[str], list[str]]:
    """Sentences for training, and those of every fifth paragraph for the test; line n is the same in every language."""
    text = (files("babelray") / f"starter/text/{language}.txt").read_text(encoding="utf-8")
    paragraphs = [paragraph.splitlines() for paragraph in text.strip().split("\n\n")]
    train = [line for number, lines in enumerate(paragraphs) if number % 5 != 4 for line in lines]
    return train, [line for lines in paragraphs[4::5] for line in lines]


def mean_pooled(model: torch.nn.Module, tokenizer: AutoTokenizer, sentences: list[str]) -> torch.Tensor:
    batch = tokenizer(sentences, padding=True, truncation=True, return_tensors="pt")
    hidden_BTD = model(**batch).last_hidden_state
    mask_BT1 = batch["attention_mask"].unsqueeze(-1)
    return (hidden_BTD * mask_BT1).sum(1) / mask_BT1.sum(1)


def retrieval(encoder: br.Encoder, test: dict[str, list[str]]) -> dict[str, float]:
    """The share of sentences whose nearest English one is their translation, by language."""
    english = torch.nn.functional.normalize(encoder.encode(test["en"]))
    scores = {}
    for language in LANGUAGES:
        nearest = (torch.nn.functional.normalize(encoder.encode(test[language])) @ english.T).argmax(1)
        scores[language] = (nearest == torch.arange(len(english))).float().mean().item()
    return scores


def main() -> None:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(1)
    draw = random.Random(1)
    folder = sys.argv[1] if len(sys.argv) > 1 else "trained-encoder"
    sentences = {language: shipped_sentences(language) for language in ("en", *LANGUAGES)}
    train = {language: texts for language, (texts, _) in sentences.items()}
    test = {language: texts for language, (_, texts) in sentences.items()}
    before = retrieval(br.load_encoder("babelray-mini"), test)

    with as_file(files("babelray") / "mini") as start:  # any folder or name that `AutoModel` loads
        model, tokenizer = AutoModel.from_pretrained(start).float().train(), AutoTokenizer.from_pretrained(start)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(STEPS):
        language = draw.choice(LANGUAGES)
        rows = draw.sample(range(len(train["en"])), BATCH)
        source, target = ([train[code][row] for row in rows] for code in (language, "en"))
        loss = br.losses.contrastive(mean_pooled(model, tokenizer, source), mean_pooled(model, tokenizer, target))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}  loss {loss.item():.3f}")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)

    after = retrieval(br.load_encoder(folder), test)
    print("retrieval of held-out sentences, before and after:")
    for language in LANGUAGES:
        print(f"  {language}  {before[language]:6.1%}  {after[language]:6.1%}")
    print(f"\nThe encoder is in {folder}; `AutoModel` and `br.load_encoder` load it.")


if __name__ == "__main__":
    main()
