"""Every public function on what is numerically awkward, and on what is no number at all."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

import identiformer.identifiability as public
from identiformer.errors import InputError
from identiformer.identifiability import (
    AttentionHead,
    Level,
    Verdict,
    alternative,
    certify,
    certify_layer,
    effective_attention,
    possible_tops,
    recover,
    tied_tokens,
    weight_intervals,
)

N, D_K, D_V, D_E = 7, 3, 5, 11
DTYPES = [torch.float64, torch.float32, torch.bfloat16]
SCALES = [1e-6, 1.0, 1e6]


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# What is no number.


def parts() -> dict[str, Any]:
    return {
        "weights": torch.full((N,), 1 / N, dtype=torch.float64),
        "keys": draw(N, D_K, seed=1),
        "values": draw(N, D_V, seed=2),
        "output_projection": draw(D_V, D_E, seed=3),
        "bias": draw(N, seed=4),
        "scaling": torch.tensor(0.5, dtype=torch.float64),
    }


def of_a_query(query, weights, **tensors):
    return AttentionHead.from_query(query, **tensors)


def from_the_output(weights, keys, values, output_projection, output, bias, scaling):
    return recover(keys, values, output_projection, output, "generatable", bias=bias)


def of_a_layer(**tensors):
    return certify_layer(AttentionHead(**{name: tensor[None] for name, tensor in tensors.items()}))


def of_a_head(function: Callable[..., Any], **arguments: Any) -> Callable[..., Any]:
    return lambda **tensors: function(AttentionHead(**tensors), **arguments)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "AttentionHead": AttentionHead,
    "AttentionHead.from_query": of_a_query,
    "alternative": of_a_head(alternative, favour=0),
    "certify_layer": of_a_layer,
    "recover": from_the_output,
}
for _name in public.__all__:
    _function = getattr(public, _name)
    if inspect.isfunction(_function) and next(iter(inspect.signature(_function).parameters)) == "head":
        FUNCTIONS.setdefault(_name, of_a_head(_function))
EXTRA = {"AttentionHead.from_query": ("query", (D_K,)), "recover": ("output", (D_E,))}
UNUSED = {"AttentionHead.from_query": ["weights"], "recover": ["weights", "scaling"]}


def test_every_public_function_is_asked():
    functions = {name for name in public.__all__ if inspect.isfunction(getattr(public, name))}
    assert functions <= FUNCTIONS.keys()
    assert {"certify", "effective_attention", "possible_tops", "tied_tokens", "weight_intervals"} <= functions


def cases():
    for name in FUNCTIONS:
        extra = [EXTRA[name][0]] if name in EXTRA else []
        for tensor in [*parts(), *extra]:
            if tensor not in UNUSED.get(name, []):
                yield name, tensor


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize(("name", "tensor"), list(cases()))
def test_what_is_no_number_is_named(name, tensor, number):
    arguments = parts()
    if name in EXTRA:
        extra, shape = EXTRA[name]
        arguments[extra] = draw(*shape)
    arguments[tensor].view(-1)[-1] = number
    with pytest.raises(InputError, match=rf"^{tensor} has shape .* holds"):
        FUNCTIONS[name](**arguments)


# What is awkward. Each kind of row with the nullities at each level and the verdict of the narrowest, which are those
# of almost every head of its sizes, in whatever precision and at whatever scale.


@dataclasses.dataclass(frozen=True)
class Awkward:
    nullities: tuple[int, int, int]
    verdict: Verdict
    weights: tuple[float, ...] = (1 / N,) * N
    sizes: tuple[int, int, int, int] = (N, D_K, D_V, D_E)
    source: tuple[int, ...] = ()  # which token each one repeats
    rank: int = D_V  # of the output projection
    value: float = 1.0
    tied: int = 0


PEAKED = (1.0, 1e-3, 1e-6, 1e-10, 1e-15, 1e-20, 1e-30)
AWKWARD = {
    "uniform": Awkward((2, 1, 0), Verdict.LOCAL),
    "peaked": Awkward((2, 1, 0), Verdict.LOCAL, weights=PEAKED),
    "all on one": Awkward((2, 1, 0), Verdict.LOCAL, weights=(0, 0, 1, 0, 0, 0, 0)),
    "sparse": Awkward((2, 1, 0), Verdict.LOCAL, weights=(0.5, 0, 0.25, 0, 0.25, 0, 0)),
    # Five tokens that differ for five channels; the two others are free to trade with their doubles.
    "repeated": Awkward((2, 2, 0), Verdict.GLOBAL, source=(0, 1, 2, 1, 3, 4, 0), tied=4),
    "one token": Awkward((0, 0, 0), Verdict.GLOBAL, weights=(1.0,), sizes=(1, D_K, D_V, D_E)),
    "fewer tokens than key channels": Awkward(
        (0, 0, 0), Verdict.GLOBAL, weights=(0.5, 0.3, 0.2), sizes=(3, 5, D_V, D_E)
    ),
    "more value than output channels": Awkward((4, 3, 0), Verdict.LOCAL, sizes=(N, D_K, D_E, 3)),
    "a projection without full rank": Awkward((5, 4, 1), Verdict.NONE, rank=2),
    "fewer tokens than channels, and no full rank": Awkward(
        (3, 2, 0), Verdict.LOCAL, weights=(0.2,) * 5, sizes=(5, 2, 7, 11), rank=2
    ),
    "values of zero": Awkward((7, 6, 3), Verdict.NONE, value=0.0),
}


def build(kind, dtype, scale):
    n, d_k, d_v, d_e = kind.sizes
    keys, values = draw(n, d_k, seed=11), draw(n, d_v, seed=12)
    if kind.source:
        keys, values = keys[list(kind.source)], values[list(kind.source)]
    projection = draw(d_v, d_e, seed=13)
    if kind.rank < D_V:
        # Small integers are exact in every precision, so that the rank is.
        projection = (draw(d_v, kind.rank, seed=14) * 2).round() @ (draw(kind.rank, d_e, seed=15) * 2).round()
    weights = torch.tensor(kind.weights, dtype=torch.float64)
    return AttentionHead(
        (weights / weights.sum()).to(dtype),
        keys.to(dtype),
        (values * kind.value).to(dtype) * scale,
        projection.to(dtype),
        dtype=dtype,
    )


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_rows(name, dtype, scale):
    kind = AWKWARD[name]
    head = build(kind, dtype, scale)
    certificate = certify(head)
    assert tuple(int(certificate[level].nullity) for level in Level) == kind.nullities
    assert Verdict(int(certificate.generatable.verdict)) == kind.verdict
    assert int(certificate.tied_tokens) == int(tied_tokens(head).number) == kind.tied
    for level, nullity in zip(Level, kind.nullities, strict=True):
        assert (float(certificate[level].margin) > 0) == (nullity == 0)
    layer = certify_layer(dataclasses.replace(head, weights=head.weights[None]))
    for level in Level:
        for field in ("nullity", "verdict", "directions"):
            assert int(getattr(layer[level], field)) == int(getattr(certificate[level], field))

    effective = effective_attention(head)
    largest = float(head.transformed.abs().max()) or 1.0
    error = (effective @ head.transformed - head.output) / largest
    assert float(error.abs().max()) <= 4 * head.eps

    lower, upper = weight_intervals(head)
    assert bool((lower <= head.weights).all())
    assert bool((head.weights <= upper).all())
    assert bool((lower >= 0).all())
    if kind.nullities[1] == 0:
        assert bool((lower == upper).all())
    top = int(head.weights.argmax())
    tops = possible_tops(head)
    assert top in tops
    # No row of weights is on top of another at less than its share.
    share = float(head.weights.sum()) / len(head.weights)
    assert all(float(upper[token]) >= share - head.eps for token in tops)

    for level in (Level.SIMPLEX, Level.GENERATABLE):
        found = alternative(head, level=level, avoid=top)
        if int(certificate[level].verdict) == Verdict.GLOBAL:
            assert found.status == "unique"
            recovered = recover(
                head.keys, head.values, head.output_projection, head.output, level, dtype=dtype
            )
            # As it is for rows that the head can generate; only those can be found again at that level.
            if level == Level.SIMPLEX or name == "fewer tokens than key channels":
                margin = float(certificate[level].margin)
                assert float((recovered - head.weights).abs().max()) <= 16 * head.eps / margin
        elif found.status == "found":
            assert found.residual is not None
            assert found.weights is not None
            assert found.residual < 1e-6
            assert float(found.weights[top]) < float(head.weights[top])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scaling", [0.1, 1.0, 30.0])
def test_rows_of_values_that_carry_the_keys(scaling, dtype, scale):
    keys = draw(101, D_K).to(dtype)
    values = torch.cat([draw(101, 2, seed=1).to(dtype), keys], dim=-1) * scale
    projection = draw(D_V, D_E, seed=2).to(dtype)
    head = AttentionHead.from_query(draw(D_K, seed=3).to(dtype), keys, values, projection, scaling=scaling)
    certificate = certify(head).generatable
    assert int(certificate.verdict) == Verdict.GLOBAL
    found = recover(head.keys, head.values, projection.double(), head.output, "generatable", dtype=dtype)
    error = float((found - head.weights).abs().max())
    assert error <= 16 * head.eps / float(certificate.margin)
    if dtype == torch.float64:
        assert error < 1e-6
    # What rounds the output rounds the weights, and no more than the margin says.
    rounded = recover(head.keys, head.values, projection.double(), head.output.to(dtype), "generatable")
    assert float((rounded - head.weights).abs().max()) <= 16 * head.eps / float(certificate.margin)
