from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from identiformer.data import docstrings, generate_docstrings, load_source
from identiformer.data.docstrings import blank_names
from identiformer.errors import InputError


@pytest.mark.parametrize(
    ("text", "blanked"),
    [
        ("Use sklearn here.", "Use this package here."),
        ("Use Sklearn.", "Use this package."),
        ("See sklearn.linear_model.Ridge, and more.", "See this package, and more."),
        ("The private _sklearn_tag of is_sklearn_model.", "The private this package of this package."),
        ("scikit-learn, scikit_learn and Scikit.Learn", "this package, this package and this package"),
        ("sklearnex, scikit and learn stay", "sklearnex, scikit and learn stay"),
        ("`sklearn`/sklearn", "`this package`/this package"),
    ],
)
def test_names_are_taken_out(text: str, blanked: str) -> None:
    assert blank_names(text, {("sklearn",), ("scikit", "learn")}) == blanked


class File(SimpleNamespace):
    """A file as the record of an installed distribution lists it."""

    def __init__(self, root: Path, name: str):
        path = Path(name)
        size = (root / name).stat().st_size
        super().__init__(
            parts=path.parts, suffix=path.suffix, size=size, locate=lambda: root / name, name=name
        )

    def __str__(self) -> str:
        return self.name


def install(monkeypatch: pytest.MonkeyPatch, root: Path, sources: dict[str, str]) -> None:
    """Have only these files be installed, each top folder as a distribution of its own."""
    distributions = []
    for top in sorted({name.split("/")[0] for name in sources}):
        names = [name for name in sources if name.startswith(f"{top}/")]
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(sources[name], encoding="utf-8")
        files = [File(root, name) for name in names]
        distributions.append(SimpleNamespace(files=files, metadata={"Name": f"py-{top}"}))
    distributions.append(SimpleNamespace(files=None, metadata={"Name": None}))
    monkeypatch.setattr(docstrings.metadata, "distributions", lambda: distributions)


def module(name: str, count: int, does: str = "does one") -> str:
    functions = "".join(
        f'def f{i}():\n    """Function {i} of {name} {does}\n    useful thing.\n\n    Details."""\n'
        for i in range(count)
    )
    return f'"""The main module of Py-{name} and all."""\n' + functions


def test_what_is_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = 'def f(:\n    """This file does not parse, so it gives nothing at all."""\n'
    short = '"""Too short."""\ndef g():\n    """>>> an example that is no sentence at all here"""\n'
    escape = '"""An invalid escape \\d gives no warning to the user."""\n'
    shared = '"""This text is in both packages word for word."""\n'
    install(
        monkeypatch,
        tmp_path,
        {
            "alpha/a.py": module("alpha", 60),
            "alpha/b.py": broken,
            "alpha/c.py": short,
            "alpha/d.py": escape,
            "alpha/shared.py": shared,
            "alpha/tests/test_a.py": '"""A text of the tests, which are left out entirely."""',
            "beta/a.py": module("beta", 80, "did a"),
            "beta/shared.py": shared,
            "gamma/a.py": module("gamma", 10, "is a"),
        },
    )
    found = generate_docstrings(rows=600, seed=0, packages=6)
    assert Counter(one.package for one in found) == {"alpha": 61, "beta": 61}
    alpha = {one.text for one in found if one.package == "alpha"}
    assert alpha == {
        "An invalid escape \\d gives no warning to the user.",
        *(f"Function {i} of this package does one useful thing." for i in range(60)),
    }


def test_texts_of_two_packages_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path, {"alpha/a.py": module("x", 60), "beta/a.py": module("X", 60)})
    with pytest.raises(InputError) as caught:
        generate_docstrings()
    assert str(caught.value) == (
        "demo:docstrings needs at least 2 installed packages with 50 docstrings each, and finds 0: install more "
        "packages, or use demo:reviews"
    )


def test_nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docstrings.metadata, "distributions", list)
    with pytest.raises(
        InputError, match="needs at least 2 installed packages with 50 docstrings each, and finds 0"
    ):
        load_source("demo:docstrings")


def test_the_packages_of_this_environment() -> None:
    data = load_source("demo:docstrings?rows=600&packages=3")
    rows = data.splits["all"]
    counts = Counter(rows["label"])
    assert len(counts) == 3
    assert len(set(counts.values())) == 1
    assert len(rows) >= 150
    assert len({text.casefold() for text in rows["text"]}) == len(rows)
    for text, label in zip(rows["text"], rows["label"], strict=True):
        assert 6 <= len(text.split()) <= 80
        assert label.casefold() not in text.casefold().replace("_", " ").replace(".", " ").split()
    assert data.notes[0].startswith("demo:docstrings?rows=600&packages=3: docstrings of '")
    again = load_source("demo:docstrings?rows=600&packages=3").splits["all"]
    assert again["text"][:] == rows["text"][:]
