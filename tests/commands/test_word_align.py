"""The command `word-align` on two sentences and on two files, and the examples of the README."""

from pathlib import Path

import pytest

from babelray.encoder.text_encoder import TextEncoder
from babelray.evaluation.soft_alignment import soft_alignment
from babelray.evaluation.word_alignment import align_pairs

SOURCE = ["the cat sleeps", "", "a big dog runs"]
TARGET = ["die katze schläft", "", "ein großer hund läuft"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, lines in (("a.txt", SOURCE), ("b.txt", TARGET)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(tmp_path / name) for name in ("a.txt", "b.txt")]


@pytest.mark.parametrize("method", ["argmax", "itermax", "match"])
def test_files_give_a_line_of_links_for_each_line(cli, files: list[str], tiny_encoder: str, method: str) -> None:
    process = cli("word-align", *files, "--model", tiny_encoder, "--layer", "1", "--method", method)
    assert process.returncode == 0, process.stderr
    pairs = [(a.split(), b.split()) for a, b in zip(SOURCE, TARGET, strict=True)]
    expected = align_pairs(TextEncoder.from_pretrained(tiny_encoder, 1), pairs, method)
    assert process.stdout.splitlines() == [" ".join(f"{i}-{j}" for i, j in links) for links in expected.links]
    assert process.stdout.splitlines()[1] == ""


def test_links_are_written_to_a_file(cli, files: list[str], tiny_encoder: str, tmp_path: Path) -> None:
    printed = cli("word-align", *files, "--model", tiny_encoder)
    written = cli("word-align", *files, "--model", tiny_encoder, "--out", str(tmp_path / "links"))
    assert (tmp_path / "links").read_text() == printed.stdout and written.stdout == ""


def test_sentences_are_split_into_words(cli, tiny_encoder: str) -> None:
    process = cli("word-align", "猫在睡觉。", "The cat sleeps.", "--from", "zh", "--to", "en", "--model", tiny_encoder)
    lines = process.stdout.splitlines()
    assert process.returncode == 0 and [line.split()[0] for line in lines[:-1]] == ["猫", "在", "睡觉", "。"]
    assert all(int(link.split("-")[1]) < 4 for link in lines[-1].split())


def test_words_that_are_not_read_are_counted(cli, tiny_encoder: str) -> None:
    process = cli("word-align", "cat " * 300, "a dog", "--model", tiny_encoder)
    assert "of 302 words are not read" in " ".join(process.stderr.split())


def test_two_missing_files_are_not_taken_for_sentences(cli, tiny_encoder: str, tmp_path: Path) -> None:
    for source, target in (("nofile.txt", "other.txt"), (str(tmp_path / "train"), "corpus.de")):
        process = cli("word-align", source, target, "--model", tiny_encoder)
        assert process.returncode == 2 and process.stdout == ""
        assert f"neither {source} nor {target} exists" in " ".join(process.stderr.split())
    assert cli("word-align", "cat.", "dog.txt", "--model", tiny_encoder).returncode == 0


def test_input_that_cannot_be_aligned(cli, files: list[str], tiny_encoder: str, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("the cat\n")
    process = cli("word-align", files[0], str(tmp_path / "short.txt"), "--model", tiny_encoder)
    assert process.returncode == 2 and "a.txt has 3 lines" in process.stderr
    process = cli("word-align", files[0], "die Katze", "--model", tiny_encoder)
    assert process.returncode == 2 and "is a file, 'die Katze' is not" in process.stderr
    (tmp_path / "zh.txt").write_text("我喜欢在早上喝一杯热茶然后去公园散步和朋友聊天。\n" * 3, encoding="utf-8")
    process = cli("word-align", str(tmp_path / "zh.txt"), files[0], "--model", tiny_encoder)
    assert process.returncode == 2 and "3 of 3 lines have no space" in process.stderr


DOG = "Der Hund schläft im Garten.", "The dog sleeps in the garden."


def test_the_transport_of_the_readme_is_sensible() -> None:
    shown = soft_alignment("babelray-mini", *DOG, "words", ("de", "en"))
    best = [shown.columns[i] for i in shown.shares_ST.argmax(1).tolist()]
    assert dict(zip(shown.rows, best, strict=True)) == {
        "Der": "The", "Hund": "dog", "schläft": "sleeps", "im": "in", "Garten": "garden", ".": ".",
    }  # fmt: skip


def test_the_word_alignment_of_the_readme_is_sensible(cli) -> None:
    sentences = "Mein Bruder wohnt in Paris.", "My brother lives in Paris."
    process = cli("word-align", *sentences, "--from", "de", "--to", "en", "--method", "match")
    assert process.stdout.splitlines()[-1] == "0-0 1-1 2-2 3-3 4-4 5-5", process.stdout
