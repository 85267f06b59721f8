"""A source language of forty words, and a small BERT that reads it."""

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification
from transformers import PreTrainedTokenizerFast as Fast

from babelray.stitching.target import Source
from babelray.vectors.word_vectors import WordVectors

WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in ("ln", "rt")][:40]
WIDTH = 16


@dataclass(frozen=True)
class SourceLanguage:
    """The encoder's folder, its source side for stitching, and its words."""

    folder: str
    source: Source
    words: list[str]

    def model(self) -> BertForSequenceClassification:
        return AutoModelForSequenceClassification.from_pretrained(self.folder).eval()


def word_piece(words: list[str]) -> Fast:
    """BERT's kind of tokenizer: special tokens first, words, continuation pieces, and signs."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = {piece: n for n, piece in enumerate([*special, *words, "##s", ",", ".", "7"])}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    read = ["input_ids", "token_type_ids", "attention_mask"]
    return Fast(tokenizer_object=tokenizer, model_max_length=32, mask_token="[MASK]", model_input_names=read, **names)


def make_language(folder: Path) -> SourceLanguage:
    tokenizer = word_piece(WORDS)
    torch.manual_seed(0)
    shape: dict[str, float] = {
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    shape |= {"hidden_dropout_prob": 0.0, "initializer_range": 0.3}  # texts differ without training
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, num_labels=3, pad_token_id=0, **shape)
    model = BertForSequenceClassification(config)
    with torch.no_grad():  # as different as trained ones
        model.get_input_embeddings().weight.normal_()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    embeddings_VD = model.get_input_embeddings().weight.detach().clone()
    rows = tokenizer.convert_tokens_to_ids(WORDS)
    hub = WordVectors(WORDS, embeddings_VD[rows], [1] * len(WORDS))
    return SourceLanguage(str(folder), Source(tokenizer, embeddings_VD, hub), WORDS)


def random_rotation(width: int, seed: int = 0) -> torch.Tensor:
    """A random rotation."""
    return torch.linalg.qr(torch.randn(width, width, generator=torch.Generator().manual_seed(seed))).Q
