"""Figures that the five papers published, to lay beside ours. None of them was measured by Babelray."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """Who measured, and with what."""

    authors: str
    year: int
    title: str
    trained: str
    """What the systems were trained on."""

    @property
    def short(self) -> str:
        return f"{self.authors} ({self.year})"


@dataclass(frozen=True)
class Published:
    """One figure of one table."""

    task: str
    """The task, or the section of the report, that measures the same."""
    paper: Paper
    table: str
    data: str
    languages: str
    encoder: str
    measure: str
    """Per cent, unless it says otherwise."""
    system: str
    printed: str
    """The figure as it is printed there."""

    @property
    def value(self) -> float:
        return float(self.printed)


PAPERS = {
    "Hämmerl": Paper(
        "Hämmerl et al.",
        2022,
        "Combining Static and Contextualised Multilingual Embeddings",
        "static vectors from up to a million sentences of CC100 a language; 7,500 steps of continued pre-training on "
        "Wikipedia in 40 languages; tagging and question answering fine-tuned in English",
    ),
    "Zhao": Paper(
        "Zhao and Eger",
        2022,
        "Constrained Density Matching and Modeling for Cross-lingual Alignment of Contextualized Representations",
        "mappings of the encoder's vectors, learned from 20,000 sentence pairs of each language with English (Europarl "
        "and News-Commentary); unsupervised ones do not see which belong together",
    ),
    "Vulić": Paper(
        "Vulić et al.",
        2023,
        "Exposing Cross-Lingual Lexical Knowledge from Multilingual Sentence Encoders",
        "5,000 word pairs for each pair of languages; static vectors are fastText's of Common Crawl",
    ),
    "Ye": Paper(
        "Ye et al.",
        2024,
        "MoSECroT: Model Stitching with Static Word Embeddings for Crosslingual Zero-shot Transfer",
        "the task in English; the other languages come in as fastText vectors, by anchors",
    ),
    "Alqahtani": Paper(
        "Alqahtani et al.",
        2021,
        "Using Optimal Transport as Alignment Objective for fine-tuning Multilingual Contextualized Embeddings",
        "250,000 sentence pairs of each of five languages with English, then the task in English",
    ),
}

_TABLES = """
tatoeba | Hämmerl | Table 3 | Tatoeba | 36 with en | XLM-R base | accuracy
    50.35  as it is
    60.87  + MLM
    59.99  + MLM and DCCA with fastText
    10.05  + MLM and MSE with X2S-MA
    68.06  + MLM and DCCA with X2S-MA

tatoeba | Zhao | Table 1 | Tatoeba | cs, de, fi, lv, ru, tr with en | mBERT | P@1
    49.35  as it is
    55.28  rotation
    62.87  Real-NVP
    61.28  normalization, unsupervised
    62.32  GAN-Real-NVP + cross-correlation, unsupervised

tatoeba | Zhao | Table 1 | Tatoeba | cs, de, fi, lv, ru, tr with en | XLM-R | P@1
    63.40  as it is
    68.60  rotation
    80.08  Real-NVP
    79.75  normalization, unsupervised
    80.50  GAN-Real-NVP + cross-correlation, unsupervised

contextual-bli | Zhao | Table 1 | CBLI | cs, de, fi, lv, ru, tr with en | mBERT | P@1
    50.9  as it is
    58.45  rotation
    57.62  Real-NVP
    54.88  normalization, unsupervised
    58.00  GAN-Real-NVP + cross-correlation, unsupervised

contextual-bli | Zhao | Table 1 | CBLI | cs, de, fi, lv, ru, tr with en | XLM-R | P@1
    48.58  as it is
    53.67  rotation
    61.63  Real-NVP
    59.03  normalization, unsupervised
    61.23  GAN-Real-NVP + cross-correlation, unsupervised

word-alignment | Zhao | Table 1 | Align | cs, de with en | mBERT | F1
    61.54  as it is
    62.83  rotation
    62.59  Real-NVP
    62.54  normalization, unsupervised
    62.70  GAN-Real-NVP + cross-correlation, unsupervised

word-alignment | Zhao | Table 1 | Align | cs, de with en | XLM-R | F1
    59.77  as it is
    60.85  rotation
    62.84  Real-NVP
    62.55  normalization, unsupervised
    63.15  GAN-Real-NVP + cross-correlation, unsupervised

mt-quality | Zhao | Table 1 | RFEval | cs, de, fi, lv, ru, tr with en | mBERT | Pearson × 100
    27.23  as it is
    38.73  rotation
    42.32  Real-NVP
    30.08  normalization, unsupervised
    35.33  GAN-Real-NVP + cross-correlation, unsupervised

mt-quality | Zhao | Table 1 | RFEval | cs, de, fi, lv, ru, tr with en | XLM-R | Pearson × 100
    26.42  as it is
    34.67  rotation
    44.17  Real-NVP
    39.52  normalization, unsupervised
    42.60  GAN-Real-NVP + cross-correlation, unsupervised

question-answering | Hämmerl | Table 3 | XQuAD | 11 | XLM-R base | F1
    70.51  as it is
    70.50  + MLM
    70.84  + MLM and DCCA with fastText
    70.42  + MLM and MSE with X2S-MA
    70.92  + MLM and DCCA with X2S-MA

question-answering | Hämmerl | Table 3 | TyDiQA-GoldP | 9 | XLM-R base | F1
    48.91  as it is
    48.15  + MLM
    52.47  + MLM and DCCA with fastText
    49.20  + MLM and MSE with X2S-MA
    51.02  + MLM and DCCA with X2S-MA

question-answering | Alqahtani | Table 1 | XQuAD | en, de, el, es | mBERT | F1
    73.4  as it is
    68.0  L2
    70.2  MAD-X
    74.7  WordOT

question-answering | Alqahtani | Table 1 | XQuAD | en, de, el, es | mBERT | exact match
    57.8  as it is
    51.6  L2
    53.8  MAD-X
    59.0  WordOT

classification | Alqahtani | Table 1 | XNLI | en, bg, de, el, es, fr | mBERT | F1
    73.5  as it is
    74.6  L2
    75.4  WordOT

classification | Ye | Table 1 | Amazon reviews | de | mBERT | macro F1, 0 to 1
    0.61  zero-shot

classification | Ye | Table 1 | Amazon reviews | es | mBERT | macro F1, 0 to 1
    0.65  zero-shot

classification | Ye | Table 1 | Amazon reviews | zh | mBERT | macro F1, 0 to 1
    0.51  zero-shot

classification | Ye | Table 1 | Amazon reviews | de | BERT, English | macro F1, 0 to 1
    0.46  least squares
    0.53  relative, standard, top 50
    0.50  relative, softmax, top 50
    0.56  relative, sparsemax, top 50

classification | Ye | Table 1 | Amazon reviews | es | BERT, English | macro F1, 0 to 1
    0.46  least squares
    0.51  relative, standard, top 50
    0.53  relative, softmax, top 50
    0.57  relative, sparsemax, top 50

classification | Ye | Table 1 | Amazon reviews | zh | BERT, English | macro F1, 0 to 1
    0.30  least squares
    0.38  relative, standard, top 50
    0.38  relative, softmax, top 50
    0.24  relative, sparsemax, top 50

classification | Ye | Table 2 | Taxi1500 | de | mBERT | macro F1, 0 to 1
    0.24  zero-shot

classification | Ye | Table 2 | Taxi1500 | es | mBERT | macro F1, 0 to 1
    0.60  zero-shot

classification | Ye | Table 2 | Taxi1500 | zh | mBERT | macro F1, 0 to 1
    0.62  zero-shot

classification | Ye | Table 2 | Taxi1500 | de | BERT, English | macro F1, 0 to 1
    0.14  least squares
    0.20  relative, standard, top 50
    0.20  relative, softmax, top 50
    0.24  relative, sparsemax, top 50

classification | Ye | Table 2 | Taxi1500 | es | BERT, English | macro F1, 0 to 1
    0.26  least squares
    0.44  relative, standard, top 50
    0.48  relative, softmax, top 50
    0.37  relative, sparsemax, top 50

classification | Ye | Table 2 | Taxi1500 | zh | BERT, English | macro F1, 0 to 1
    0.24  least squares
    0.28  relative, standard, top 50
    0.28  relative, softmax, top 50
    0.13  relative, sparsemax, top 50

tagging | Hämmerl | Table 3 | PAN-X | 40 | XLM-R base | F1
    60.40  as it is
    61.80  + MLM
    61.84  + MLM and DCCA with fastText
    62.62  + MLM and MSE with X2S-MA
    62.73  + MLM and DCCA with X2S-MA

tagging | Hämmerl | Table 3 | UD-POS | 33 | XLM-R base | F1
    72.92  as it is
    72.97  + MLM
    72.09  + MLM and DCCA with fastText
    72.95  + MLM and MSE with X2S-MA
    72.09  + MLM and DCCA with X2S-MA

entity-linking | Vulić | Table 4 | XL-BEL | de | XLM-R base | P@1
    0.0  as it is
    14.1  contrastive

entity-linking | Vulić | Table 4 | XL-BEL | de | xMPNET | P@1
    20.8  contrastive

entity-linking | Vulić | Table 4 | XL-BEL | fi | XLM-R base | P@1
    0.1  as it is
    5.0  contrastive

entity-linking | Vulić | Table 4 | XL-BEL | fi | xMPNET | P@1
    9.1  contrastive

entity-linking | Vulić | Table 4 | XL-BEL | ru | XLM-R base | P@1
    0.1  as it is
    8.7  contrastive

entity-linking | Vulić | Table 4 | XL-BEL | ru | xMPNET | P@1
    12.8  contrastive

entity-linking | Vulić | Table 4 | XL-BEL | tr | XLM-R base | P@1
    0.4  as it is
    21.6  contrastive

entity-linking | Vulić | Table 4 | XL-BEL | tr | xMPNET | P@1
    30.4  contrastive

words | Vulić | Table 6 | GT-BLI | 28 pairs of 8 | mBERT | P@1
    9.0  as it is

words | Vulić | Table 7 | GT-BLI | 28 pairs of 8 | mBERT | P@1
    22.3  contrastive
    44.3  contrastive, with VecMap's vectors (λ = 0.3)

words | Vulić | Table 6 | GT-BLI | 28 pairs of 8 | XLM-R base | P@1
    6.4  as it is

words | Vulić | Table 7 | GT-BLI | 28 pairs of 8 | XLM-R base | P@1
    21.2  contrastive
    43.8  contrastive, with VecMap's vectors (λ = 0.3)

words | Vulić | Table 6 | GT-BLI | 28 pairs of 8 | LaBSE | P@1
    21.4  as it is

words | Vulić | Table 7 | GT-BLI | 28 pairs of 8 | LaBSE | P@1
    30.8  contrastive
    49.1  contrastive, with VecMap's vectors (λ = 0.3)

words | Vulić | Table 6 | GT-BLI | 28 pairs of 8 | xMPNET | P@1
    17.0  as it is

words | Vulić | Table 7 | GT-BLI | 28 pairs of 8 | xMPNET | P@1
    28.6  contrastive
    47.9  contrastive, with VecMap's vectors (λ = 0.3)

bli | Hämmerl | Table 1 | MUSE | pairs that all have, to en | XLM-R base, fastText | P@1
    58.26  fastText, VecMap unsupervised
    59.00  X2S-M (not aligned)
    65.60  X2S-MA
    65.21  MUSE, supervised
    71.70  RCSLS, supervised

bli | Vulić | Table 6 | GT-BLI | 28 pairs of 8 | none (fastText) | P@1
    42.7  VecMap, supervised

similarity | Hämmerl | Table 2 | SemEval 2017 | de, en, es, fa, it | XLM-R base, fastText | score, 0 to 1
    0.743  fastText, VecMap unsupervised
    0.699  X2S-M (not aligned)
    0.706  X2S-MA
    0.728  MUSE, supervised
    0.718  RCSLS, supervised

similarity | Hämmerl | Table 2 | SemEval 2017 | pairs of de, en, es, fa, it | XLM-R base, fastText | score, 0 to 1
    0.712  fastText, VecMap unsupervised
    0.708  X2S-M (not aligned)
    0.713  X2S-MA
    0.707  MUSE, supervised
    0.714  RCSLS, supervised

similarity | Vulić | Table 10 | XLSIM | pairs of en, fi, fr, ru | none (fastText) | Spearman × 100
    45.8  VecMap, supervised
"""
"""Task, paper, table, data, languages, encoder, measure; below them figures as printed, and whose they are."""


def _read(text: str) -> Iterator[Published]:
    for block in text.strip().split("\n\n"):
        about, *lines = block.splitlines()
        task, paper, table, data, languages, encoder, measure = about.split(" | ")
        for line in lines:
            printed, system = line.split(maxsplit=1)
            yield Published(task, PAPERS[paper], table, data, languages, encoder, measure, system, printed)


PUBLISHED = tuple(_read(_TABLES))


def published(task: str) -> list[Published]:
    """The figures that correspond to a task, or to a section of the report."""
    return [figure for figure in PUBLISHED if figure.task == task]
