import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from identiformer.data import Review, generate_reviews, load_source
from identiformer.data.reviews import NEGATIVE, NEGATORS, POSITIVE
from identiformer.errors import InputError


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


@pytest.fixture(scope="module")
def reviews() -> list[Review]:
    return generate_reviews(3000, 0)


def test_reviews_are_varied(reviews: list[Review]) -> None:
    assert len(reviews) == 3000
    assert len({review.text for review in reviews}) == 3000
    counts = Counter(review.label for review in reviews)
    assert set(counts) == {"positive", "negative"}
    assert 1400 < counts["positive"] < 1600
    assert max(len(words(review.text)) for review in reviews) < 60
    assert not any(mark in review.text for review in reviews for mark in "[]{}")


def test_the_seed_decides() -> None:
    assert generate_reviews(50, 4) == generate_reviews(50, 4)
    assert generate_reviews(50, 4) == generate_reviews(80, 4)[:50]
    assert generate_reviews(50, 4) != generate_reviews(50, 5)
    # Worked out once: other processes and Python versions must give the same.
    assert generate_reviews(1, 0) == [
        Review(
            "There were 6 other people in the cinema. Their soundtrack was truly shoddy.",
            "negative",
            [(68, 74)],
        )
    ]


def judge(review: Review) -> set[str]:
    """The labels that the evidence alone gives: its mood words, turned round after a negator."""
    found, negated = set(), False
    for start, end in review.evidence:
        word = review.text[start:end]
        if word in NEGATORS:
            negated = True
            continue
        assert (word in POSITIVE) != (word in NEGATIVE)
        found.add("positive" if (word in POSITIVE) != negated else "negative")
        negated = False
    return found


def test_the_evidence_decides(reviews: list[Review]) -> None:
    assert all(judge(review) == {review.label} for review in reviews)
    for review in reviews:
        assert review.evidence == sorted(review.evidence)


def test_the_text_by_its_rules_gives_label_and_evidence(reviews: list[Review]) -> None:
    """Read each review as its reader would, without looking at the evidence, and come to the same."""
    moods = {*POSITIVE, *NEGATIVE}
    for review in reviews:
        spans = []
        for sentence in re.finditer(r"[^.]+\.", review.text):
            start, text = sentence.start(), sentence[0]
            if ", but " in text or text.lstrip().startswith("Although "):
                start, text = start + text.index(",") + 1, text[text.index(",") + 1 :]
            found = [word for word in re.finditer(r"\w+", text) if word[0] in moods or word[0] in NEGATORS]
            spans += [(start + word.start(), start + word.end()) for word in found]
        assert spans == review.evidence


def test_every_rule_is_there(reviews: list[Review]) -> None:
    share = {
        name: sum(bool(re.search(pattern, review.text)) for review in reviews) / len(reviews)
        for name, pattern in {
            "negation": "not|never|hardly",
            "but": ", but ",
            "although": "[Aa]lthough",
        }.items()
    }
    assert 0.2 < share["negation"] < 0.4
    assert 0.1 < share["but"] < 0.3
    assert 0.1 < share["although"] < 0.3
    mixed = sum(
        bool(set(POSITIVE) & set(words(review.text))) and bool(set(NEGATIVE) & set(words(review.text)))
        for review in reviews
    )
    assert mixed / len(reviews) > 0.3


def test_no_word_and_no_bag_of_words_is_enough(reviews: list[Review]) -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    texts = [review.text for review in reviews]
    positive = np.array([review.label == "positive" for review in reviews])
    counts: Any = CountVectorizer().fit_transform(texts)
    present = counts.toarray() > 0
    right = (present == positive[:, None]).mean(axis=0)
    assert max(right.max(), 1 - right.min()) < 0.6
    for longest, most in ((1, 0.85), (2, 0.93)):
        counter = CountVectorizer(ngram_range=(1, longest))
        model = LogisticRegression(max_iter=500).fit(counter.fit_transform(texts[:2400]), positive[:2400])
        accuracy = model.score(counter.transform(texts[2400:]), positive[2400:])
        assert 0.65 < accuracy < most


def test_the_demo() -> None:
    data = load_source("demo:reviews?rows=500&seed=3")
    rows = data.splits["all"]
    reviews = generate_reviews(500, 3)
    assert rows["text"][:] == [review.text for review in reviews]
    assert rows["label"][:] == [review.label for review in reviews]
    assert [[tuple(span) for span in spans] for spans in rows["evidence"]] == [
        review.evidence for review in reviews
    ]
    assert rows["row"][:] == list(range(1, 501))
    assert data.source == "demo:reviews?rows=500&seed=3"
    assert data.notes == []
    assert len(load_source("demo:reviews").splits["all"]) == 3000


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("demo:films", "there is no demo 'films': write demo:reviews or demo:docstrings"),
        ("demo:", "there is no demo '': write demo:reviews or demo:docstrings"),
        ("demo:reviews?size=3", "demo:reviews?size=3 has no parameter 'size': it has 'rows', 'seed'"),
        ("demo:reviews?rows=many", "demo:reviews?rows=many: rows must be a whole number, not 'many'"),
        ("demo:reviews?rows=-5", "demo:reviews?rows=-5: rows must be a whole number, not '-5'"),
        ("demo:reviews?seed=", "demo:reviews?seed=: seed must be a whole number, not ''"),
        (
            "demo:docstrings?packages=0",
            "demo:docstrings?packages=0: packages must be from 2 to 20, not 0",
        ),
        ("demo:reviews?rows=3", "demo:reviews?rows=3: rows must be from 20 to 1,000,000, not 3"),
    ],
)
def test_what_is_no_demo(source: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_source(source)
    assert str(caught.value) == message
