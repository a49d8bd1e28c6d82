"""Made-up reviews whose label is known to depend on known words, so that explanations can be scored.

A review has one or two opinions and some neutral filler. The rules that decide its label:

- a mood word gives its own label: "The room was lovely.";
- a negator before it turns it round: "The room was not lovely.";
- where two clauses of a sentence disagree, the main one decides: the one after "but", or the one that "although" does
  not introduce. Both clauses hold mood words, so that neither one word nor a bag of words decides.

The shares below leave a bag of words at about three reviews in four, and let a transformer of one layer learn nearly
all of them from 2,400 reviews. A main clause that comes first ("..., even though ...") was tried, and learned worse.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from identiformer.data.wording import words

POSITIVE = words(
    "excellent wonderful great good lovely superb delightful fantastic pleasant impressive charming brilliant perfect "
    "terrific splendid enjoyable beautiful"
)
NEGATIVE = words(
    "terrible awful bad poor dreadful horrible disappointing annoying mediocre shoddy unpleasant useless dull dismal "
    "lousy ugly dreary"
)
NEGATORS = ("not", "never", "hardly")
# How often an opinion is a contrast, a clause is negated, and a review has two opinions.
P_CONTRAST, P_NEGATED, P_TWO = 0.3, 0.15, 0.4
LABELS = ("negative", "positive")

_INTENSIFIERS = ("", "", "", "really ", "very ", "quite ", "rather ", "truly ")
# "{mood}" is the mood word with its negator or intensifier.
_CLAUSES = ("the {aspect} was {mood}", "their {aspect} was {mood}", "I think the {aspect} was {mood}")
_CONTRASTS = (
    "{other}, but {main}.",
    "although {other}, {main}.",
)


@dataclass(frozen=True)
class Review:
    """A review and the truth about it.

    Attributes:
        text: the review.
        label: "positive" or "negative".
        evidence: spans of characters, (start, end), of the words that decide the label: the mood words of the deciding
            clauses and their negators.
    """

    text: str
    label: str
    evidence: list[tuple[int, int]]


@dataclass(frozen=True)
class _Domain:
    aspects: tuple[str, ...]
    fillers: tuple[str, ...]


_DOMAINS = (
    _Domain(
        (
            "room",
            "breakfast",
            "staff",
            "location",
            "view",
            "bathroom",
            "bed",
            "lobby",
            "pool",
            "parking",
            "heating",
        ),
        (
            "We stayed for {n} nights in {month}.",
            "The hotel is {n} minutes from the station.",
            "We had booked a double room on the {nth} floor.",
            "Check-in starts at {n} in the afternoon.",
            "My {person} came along on this trip.",
        ),
    ),
    _Domain(
        (
            "soup",
            "pasta",
            "service",
            "dessert",
            "wine",
            "menu",
            "music",
            "bread",
            "salad",
            "coffee",
            "terrace",
        ),
        (
            "We went there on a {day} in {month}.",
            "We were a table of {n}.",
            "I ordered dish number {n} and a glass of water.",
            "My {person} had the same as I did.",
            "The restaurant is on the {nth} floor of a shopping centre.",
        ),
    ),
    _Domain(
        (
            "battery",
            "screen",
            "camera",
            "keyboard",
            "sound",
            "packaging",
            "manual",
            "software",
            "charger",
            "speaker",
        ),
        (
            "I bought it in {month}.",
            "It came in a box with {n} cables.",
            "I use it about {n} hours a day.",
            "My {person} has the older model.",
            "It arrived on a {day}.",
        ),
    ),
    _Domain(
        (
            "plot",
            "acting",
            "script",
            "ending",
            "soundtrack",
            "dialogue",
            "pacing",
            "lighting",
            "cast",
            "opening",
        ),
        (
            "I saw it on a {day} with my {person}.",
            "The film runs for almost {n} hours.",
            "It is the {nth} part of a series.",
            "It came out in {month}.",
            "There were {n} other people in the cinema.",
        ),
    ),
    _Domain(
        (
            "style",
            "cover",
            "story",
            "translation",
            "first chapter",
            "heroine",
            "preface",
            "paper",
            "print",
            "map",
        ),
        (
            "I read it in {n} days.",
            "My {person} lent it to me in {month}.",
            "The book has {n} chapters.",
            "This is the {nth} edition.",
            "I started it on a {day}.",
        ),
    ),
)
_MONTHS = words("January February March April May June July August September October November December")
_DAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
_PEOPLE = words("sister brother mother father friend neighbour colleague cousin aunt uncle")
_NTH = words("second third fourth fifth sixth seventh eighth ninth tenth")


def generate_reviews(rows: int, seed: int) -> list[Review]:
    """Generate reviews; about half of them are positive, and hardly any two are equal.

    Args:
        rows: how many.
        seed: the same seed gives the same reviews, in every process; the first rows do not depend on `rows`.

    Returns:
        The reviews.
    """
    chance = random.Random(seed)
    seen: set[str] = set()
    reviews: list[Review] = []
    while len(reviews) < rows:
        review = _review(chance)
        # Short reviews without filler can repeat; when they run out, as for millions of rows, a repeat may stay.
        for _ in range(20):
            if review.text not in seen:
                break
            review = _review(chance)
        seen.add(review.text)
        reviews.append(review)
    return reviews


def _review(chance: random.Random) -> Review:
    domain = chance.choice(_DOMAINS)
    positive = chance.random() < 0.5
    opinions = 2 if chance.random() < P_TWO else 1
    aspects = chance.sample(domain.aspects, 2 * opinions)
    sentences = [_opinion(chance, aspects[2 * i : 2 * i + 2], positive) for i in range(opinions)]
    for filler in chance.sample(domain.fillers, chance.choice((0, 1, 1, 2))):
        sentences.insert(chance.randint(0, len(sentences)), _filler(chance, filler))
    return _assemble(" ".join(sentences), LABELS[positive])


def _opinion(chance: random.Random, aspects: list[str], positive: bool) -> str:
    """A sentence whose deciding clause has the given mood; what decides stands between brackets."""
    main = _clause(chance, aspects[0], positive, deciding=True)
    if chance.random() >= P_CONTRAST:
        return _sentence(main + ".")
    other = _clause(chance, aspects[1], not positive, deciding=False)
    form = chance.choice(_CONTRASTS)
    return _sentence(form.format(main=main, other=other))


def _clause(chance: random.Random, aspect: str, positive: bool, deciding: bool) -> str:
    negated = chance.random() < P_NEGATED
    mood = chance.choice(POSITIVE if positive != negated else NEGATIVE)
    left, right = ("[", "]") if deciding else ("", "")
    before = f"{left}{chance.choice(NEGATORS)}{right} " if negated else chance.choice(_INTENSIFIERS)
    return chance.choice(_CLAUSES).format(aspect=aspect, mood=f"{before}{left}{mood}{right}")


def _filler(chance: random.Random, form: str) -> str:
    return form.format(
        n=chance.randint(2, 12),
        nth=chance.choice(_NTH),
        month=chance.choice(_MONTHS),
        day=chance.choice(_DAYS),
        person=chance.choice(_PEOPLE),
    )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _assemble(marked: str, label: str) -> Review:
    """Take the brackets out and turn them into spans."""
    text, evidence, start = "", [], 0
    for character in marked:
        if character == "[":
            start = len(text)
        elif character == "]":
            evidence.append((start, len(text)))
        else:
            text += character
    return Review(text, label, evidence)
