"""A small encoder with random weights and its tokenizer, for training from scratch."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from babelray.config import Config

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


class ArchitectureConfig(Config):
    """The architecture and the vocabulary of a small encoder."""

    architecture: Literal["xlm-roberta", "roberta-prelayernorm"] = "roberta-prelayernorm"
    """Pre-LayerNorm leaves the unigram plateau much sooner at small sizes; `xlm-roberta` is XLM-R's own layout."""
    vocabulary: int = Field(4000, ge=300)
    """Number of pieces in the SentencePiece vocabulary."""
    byte_fallback: bool = True
    """Whether a character outside the vocabulary is encoded as its bytes (256 pieces) or as unknown."""
    tokenizer_sentences: int = Field(200_000, ge=1)
    """Maximum number of sentences that the vocabulary is learned from."""
    tokenizer_temperature: float = Field(0.3, ge=0, le=1)
    """How these are distributed over languages: 1 in proportion to their data, 0 uniformly."""
    width: int = Field(128, ge=8)
    layers: int = Field(4, ge=1)
    heads: int = Field(4, ge=1)
    feed_forward: int | None = Field(None, ge=8)
    """Width inside the feed-forward blocks; four times the width by default."""
    max_tokens: int = Field(128, ge=16)
    """Maximum length of the input, in subwords."""
    dropout: float = Field(0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _check_heads(self) -> ArchitectureConfig:
        if self.width % self.heads:
            raise ValueError(f"heads ({self.heads}) must divide width ({self.width})")
        return self


def train_tokenizer(
    texts: Iterable[str], vocabulary: int, max_tokens: int, byte_fallback: bool = False
) -> PreTrainedTokenizerFast:
    """A SentencePiece unigram model over the texts, as a fast tokenizer with XLM-R's special tokens."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = _fast_tokenizer(_train_sentencepiece(texts, vocabulary, byte_fallback), byte_fallback)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_tokens,
        bos_token="<s>",
        cls_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        sep_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
    )


def _train_sentencepiece(texts: Iterable[str], vocabulary: int, byte_fallback: bool) -> bytes:
    """A serialised SentencePiece model."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=vocabulary - 1,  # the mask token is added
        model_type="unigram",
        character_coverage=0.9999,
        hard_vocab_limit=False,
        byte_fallback=byte_fallback,
        num_threads=2,
        minloglevel=2,
        bos_id=0,
        pad_id=1,
        eos_id=2,
        unk_id=3,
    )
    return model.getvalue()


def _fast_tokenizer(model: bytes, byte_fallback: bool) -> Tokenizer:
    """The same segmentation and normalisation as a fast tokenizer."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [(processor.id_to_piece(i), processor.get_score(i)) for i in range(processor.get_piece_size())]
    scores = [*zip(special, [0.0] * 4, strict=True), *pieces[4:], ("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=3, byte_fallback=byte_fallback))
    # SentencePiece's own normalisation: NFKC, and invisible characters such as Persian's half-spaces.
    learned = sentencepiece_model_pb2.ModelProto.FromString(model)
    characters = normalizers.Precompiled(learned.normalizer_spec.precompiled_charsmap)
    tokenizer.normalizer = normalizers.Sequence(
        [characters, normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    tokenizer.add_special_tokens([*special, AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def random_encoder(config: ArchitectureConfig, vocabulary: int, seed: int) -> PreTrainedModel:
    """A RoBERTa-family encoder with random weights."""
    return _random_encoder(config, vocabulary, seed, config.layers)


def _random_encoder(config: ArchitectureConfig, vocabulary: int, seed: int, layers: int) -> PreTrainedModel:
    import torch
    from transformers import (
        RobertaPreLayerNormConfig,
        RobertaPreLayerNormForMaskedLM,
        XLMRobertaConfig,
        XLMRobertaForMaskedLM,
    )

    classes = {
        "xlm-roberta": (XLMRobertaConfig, XLMRobertaForMaskedLM),
        "roberta-prelayernorm": (RobertaPreLayerNormConfig, RobertaPreLayerNormForMaskedLM),
    }
    config_class, model_class = classes[config.architecture]
    shape = config_class(
        vocab_size=vocabulary,
        hidden_size=config.width,
        num_hidden_layers=layers,
        num_attention_heads=config.heads,
        intermediate_size=config.feed_forward or 4 * config.width,
        max_position_embeddings=config.max_tokens + 2,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
        type_vocab_size=1,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(seed)
    return model_class(shape)


def static_encoder(config: ArchitectureConfig, vocabulary: int, seed: int) -> PreTrainedModel:
    """An encoder without layers: a text is the mean of its subwords' normalised embeddings.

    The gains of LayerNorm weigh subwords against each other, and so have to learn as fast as the embeddings. These
    start large, so that one learning rate, of 0.05, suits both.
    """
    import torch

    model = _random_encoder(config, vocabulary, seed, layers=0)
    words, *others = _embeddings(model)
    with torch.no_grad():
        words.weight *= STATIC_SCALE / model.config.initializer_range
        for other in others:  # the place of a subword has no influence at first
            other.weight.zero_()
    return model


STATIC_SCALE = 0.5
"""Standard deviation of the initial embeddings of an encoder without layers."""


def add_layers(static: PreTrainedModel, config: ArchitectureConfig, seed: int) -> PreTrainedModel:
    """The encoder with the layers that it was trained without. They change nothing yet: what they add is zero.

    The embeddings are scaled to the size that they have in an encoder with layers; LayerNorm makes that no difference.
    """
    import torch

    model = _random_encoder(config, static.config.vocab_size, seed, config.layers)
    model.load_state_dict(static.state_dict(), strict=False)
    embeddings = _embeddings(model)
    scale = model.config.initializer_range / embeddings[0].weight.std()
    with torch.no_grad():
        for table in embeddings:
            table.weight *= scale
        for layer in model.base_model.encoder.layer:
            for block in (layer.attention.output.dense, layer.output.dense):
                block.weight.zero_()
                block.bias.zero_()
    return model


def _embeddings(model: PreTrainedModel) -> list[torch.nn.Embedding]:
    """Those of subwords, of positions and of the single token type, whose sum is normalised."""
    tables = model.base_model.embeddings
    return [tables.word_embeddings, tables.position_embeddings, tables.token_type_embeddings]
