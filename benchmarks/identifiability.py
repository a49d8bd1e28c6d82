"""Certificates, effective attention and intervals against what they would cost otherwise, side by side in one run.

    python benchmarks/identifiability.py [--repeats 15] [--threads 1] [--clock wall|cpu] [--output FILE]

Twelve heads of 64 to 512 tokens, d_k = d_v = 64, d_e = 768, in float32, as in one layer of BERT. All ways run once a
round, in turn; ratios are of what ran in the same round. A number is a median, its quartiles in brackets. `--clock cpu`
counts the seconds of the processor, for a machine that has other work to do; with one thread, they are comparable.

Whatever is certified is a fresh head: nothing that was computed of it before is used again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import CLOCKS, Preparation, Spread, always, environment, measure, write
from torch import Tensor

from identiformer.identifiability import (
    AttentionHead,
    Level,
    certify,
    effective_attention,
    weight_intervals,
)
from identiformer.identifiability.certificate import certify_levels

ROOT = Path(__file__).parents[1]
HEADS, SIZE, WIDTH = 12, 64, 768
# Rows of as many texts as are audited at once; the projection is that of all of them.
TEXTS = 16


@dataclass(frozen=True)
class Result:
    """How many times as long the one takes as the other."""

    part: str
    tokens: int
    what: str
    seconds: Spread
    against: str
    ratio: Spread
    target: str

    def show(self) -> str:
        """A line of the table."""
        return (
            f"{self.tokens:4d}  {self.what:44s} {1e3 * self.seconds.median:9.3f} ms   {self.against:36s} "
            f"{self.ratio.show():28s} {self.target}"
        )


@dataclass(frozen=True)
class Layer:
    """The heads of one layer for some texts, as a model in float32 computes them."""

    query: Tensor  # [texts, heads, n, d_k]
    keys: Tensor  # [texts, heads, n, d_k]
    values: Tensor  # [texts, heads, n, d_v]
    projection: Tensor  # [heads, d_v, d_e]
    weights: Tensor  # [texts, heads, n, n]

    @staticmethod
    def random(texts: int, tokens: int) -> Layer:
        """Normal queries, keys and values, and a projection of the size that initialisation gives it."""
        query, keys, values = torch.randn(3, texts, HEADS, tokens, SIZE)
        projection = torch.randn(HEADS, SIZE, WIDTH) * WIDTH**-0.5
        return Layer(query, keys, values, projection, torch.softmax(query @ keys.mT * SIZE**-0.5, dim=-1))

    def head(self, rows: int) -> AttentionHead:
        """The first rows of every head."""
        return AttentionHead(
            self.weights[:, :, :rows],
            self.keys[:, :, None],
            self.values[:, :, None],
            self.projection[:, None],
        )

    def attention(self) -> Tensor:
        """All rows, as the model computes them."""
        mixed = torch.softmax(self.query @ self.keys.mT * SIZE**-0.5, dim=-1) @ self.values
        merged = mixed.transpose(1, 2).flatten(2)  # [texts, n, heads * d_v]
        return merged @ self.projection.flatten(0, 1)

    def fresh(self, rows: int, compute: Callable[[AttentionHead], object]) -> Preparation:
        """A preparation that makes a new head each time."""

        def prepare() -> Callable[[], object]:
            head = self.head(rows)
            return lambda: compute(head)

        return prepare


def ranks_and_effective(head: AttentionHead) -> None:
    """What does not depend on the keys: nullities and margins of `free` and `simplex`, and effective attention."""
    certify_levels(head, (Level.FREE, Level.SIMPLEX))
    effective_attention(head)


def everything(head: AttentionHead) -> None:
    """All levels, ties, and effective attention."""
    certify(head)
    effective_attention(head)


def generatable(head: AttentionHead) -> None:
    """The level that looks at every row."""
    certify_levels(head, (Level.GENERATABLE,))


def encoder_layer(tokens: int) -> Callable[[], object]:
    """The forward pass of a layer of BERT, randomly initialised, for one text."""
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertLayer

    config = BertConfig()
    config._attn_implementation = "eager"
    layer = BertLayer(config).eval()
    hidden = torch.randn(1, tokens, WIDTH)

    def forward() -> None:
        with torch.no_grad():
            layer(hidden)

    return forward


def against_factorisations(tokens: int, repeats: int, clock: str) -> list[Result]:
    """One head's worth of factorisations, by twelve, against what they are for."""
    one, many = Layer.random(1, tokens), Layer.random(TEXTS, tokens)
    values = one.values[0]
    output = values @ one.projection  # [heads, n, d_e]
    array, double = output.numpy(), values.double()
    ours: dict[str, tuple[Preparation, int]] = {
        "free, simplex, effective; one text": (one.fresh(1, ranks_and_effective), 1),
        f"free, simplex, effective; of {TEXTS} texts": (many.fresh(1, ranks_and_effective), TEXTS),
        "all levels, ties, effective; one text": (one.fresh(1, everything), 1),
        f"all levels, ties, effective; of {TEXTS} texts": (many.fresh(1, everything), TEXTS),
    }
    theirs: dict[str, tuple[Preparation, str]] = {
        "full SVD of T (torch)": (always(lambda: torch.linalg.svd(output, full_matrices=True)), "> 50"),
        "full SVD of T (numpy)": (always(lambda: np.linalg.svd(array, full_matrices=True)), ""),
        "full SVD of V": (always(lambda: torch.linalg.svd(values, full_matrices=True)), "> 5"),
        "thin QR of V": (always(lambda: torch.linalg.qr(values)), "about 1"),
        "thin QR of V, in float64": (always(lambda: torch.linalg.qr(double)), ""),
    }
    ways = {name: way for name, (way, _) in [*ours.items(), *theirs.items()]}
    seconds = measure(ways, repeats, clock)
    return [
        Result(
            "heads",
            tokens,
            what,
            Spread.of(seconds[what] / texts),
            f"{against} takes times as long",
            Spread.of(seconds[against] * texts / seconds[what]),
            target,
        )
        for what, (_, texts) in ours.items()
        for against, (_, target) in theirs.items()
        # What looks at the keys and rows too is not what factorisations of V are for.
        if what.startswith("free") or "of T" in against
    ]


def against_attention(tokens: int, repeats: int, clock: str) -> list[Result]:
    """Certificates at `generatable` against the attention that they are about, and a layer's forward pass."""
    one, many = Layer.random(1, tokens), Layer.random(TEXTS, tokens)
    forward = encoder_layer(tokens)
    ours: dict[str, tuple[Preparation, int, str]] = {
        "generatable, one row; one text": (one.fresh(1, generatable), 1, "< 5"),
        f"generatable, one row; of {TEXTS} texts": (many.fresh(1, generatable), TEXTS, "< 5"),
        "all levels, ties, effective; one row": (one.fresh(1, everything), 1, ""),
    }
    if tokens <= 128:
        ours["generatable, all rows; one text"] = (one.fresh(tokens, generatable), 1, "< 100")
    theirs = {"attention": always(one.attention), "forward pass of the layer": always(forward)}
    seconds = measure({**{name: way for name, (way, _, _) in ours.items()}, **theirs}, repeats, clock)
    return [
        Result(
            "attention",
            tokens,
            what,
            Spread.of(seconds[what] / texts),
            f"times as long as the {against}",
            Spread.of(seconds[what] / texts / seconds[against]),
            target if against == "attention" else "",
        )
        for what, (_, texts, target) in ours.items()
        for against in theirs
    ]


def bounds_by_linprog(head: AttentionHead) -> tuple[np.ndarray, np.ndarray]:
    """Two linear programs a token, each from scratch."""
    from scipy.optimize import linprog

    weights = head.weights.numpy()
    equal = np.concatenate([head.transformed.numpy().T, np.ones((1, len(weights)))])
    bounds = np.empty((2, len(weights)))
    for token in range(len(weights)):
        for side, sign in enumerate((1, -1)):
            objective = np.zeros(len(weights))
            objective[token] = sign
            found = linprog(objective, A_eq=equal, b_eq=equal @ weights, bounds=(0, None), method="highs")
            bounds[side, token] = sign * found.fun if found.status == 0 else weights[token]
    return bounds[0], bounds[1]


def against_linprog(tokens: int, repeats: int, clock: str, target: str) -> list[Result]:
    """The intervals of one row, d_e = d_v: the projection changes neither's programs but in size."""
    layer = Layer.random(1, tokens)
    given = (layer.weights[0, 0, 0], layer.keys[0, 0], layer.values[0, 0])
    head = AttentionHead(*given)
    found, expected = weight_intervals(head), bounds_by_linprog(head)
    differs = max(float(np.abs(one.numpy() - two).max()) for one, two in zip(found, expected, strict=True))
    print(f"{tokens:4d}  bounds of the two differ by at most {differs:.1e}", flush=True)
    ways: dict[str, Preparation] = {
        "weight intervals, one row": lambda: (lambda fresh: lambda: weight_intervals(fresh))(
            AttentionHead(*given)
        ),
        "linprog": lambda: (lambda fresh: lambda: bounds_by_linprog(fresh))(AttentionHead(*given)),
    }
    seconds = measure(ways, repeats, clock, warm_ups=0)
    what, against = ways
    return [
        Result(
            "intervals",
            tokens,
            what,
            Spread.of(seconds[what]),
            "two programs a token (SciPy) take times as long",
            Spread.of(seconds[against] / seconds[what]),
            target,
        )
    ]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--tokens", type=int, nargs="+", default=[64, 128, 512])
    parser.add_argument("--parts", nargs="+", default=["heads", "attention", "intervals"])
    parser.add_argument("--output", type=Path, default=ROOT / ".benchmarks" / "identifiability.json")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    results: list[Result] = []

    def add(found: list[Result]) -> None:
        results.extend(found)
        for result in found:
            print(result.show(), flush=True)

    print(f"{HEADS} heads, d_k = d_v = {SIZE}, d_e = {WIDTH}, {given.threads} thread(s), {given.clock} time")
    for tokens in given.tokens:
        if "heads" in given.parts:
            add(against_factorisations(tokens, given.repeats, given.clock))
        if "attention" in given.parts:
            add(against_attention(tokens, given.repeats, given.clock))
    if "intervals" in given.parts:
        for tokens, target in ((80, "> 10"), (128, "> 5")):
            add(against_linprog(tokens, max(3, given.repeats // 5), given.clock, target))
    document: dict[str, Any] = {
        "environment": environment(given.threads, given.clock),
        "repeats": given.repeats,
        "results": [asdict(result) for result in results],
    }
    write(given.output, document)
    print(f"written to {given.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
