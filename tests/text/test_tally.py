from babelray.text.tally import Tally, loss_remarks


def test_only_large_losses_are_remarked_the_largest_first() -> None:
    counts = {
        "en": {"read": 100, "kept": 96, "dropped: too few tokens": 4, "dropped: duplicate": 50},
        "de": {"read": 1000, "kept": 400, "dropped: short paragraph": 500, "dropped: too few tokens": 100},
        "fr": {"read": 100, "kept": 10, "dropped: not JSON": 90},
    }
    examples = {"de": {"dropped: short paragraph": "Politik"}, "fr": {"dropped: not JSON": "{"}}
    assert loss_remarks(counts, examples) == [
        "fr: 90% of 100 dropped: 90% not JSON (such as '{')",
        "de: 60% of 1,000 dropped: 50% short paragraph (such as 'Politik'), 10% too few tokens",
    ]


def test_many_languages_are_listed_in_brief() -> None:
    counts = {f"l{i}": {"read": 100, "dropped: not UTF-8": 10 + i} for i in range(8)}
    remarks = loss_remarks(counts, {})
    assert len(remarks) == 6 and remarks[0].startswith("l7: 17% of 100 dropped")
    assert remarks[-1] == "more than 5% dropped too: l2 12%, l1 11%, l0 10%"


def test_the_first_example_of_a_reason_is_kept() -> None:
    tally = Tally()
    tally.drop("not JSON", "a\n b")
    tally.drop("not JSON", "c", 2)
    tally.drop("held out", "", 3)
    assert tally == {"dropped: not JSON": 3, "dropped: held out": 3}
    assert tally.examples == {"dropped: not JSON": "a b"}
