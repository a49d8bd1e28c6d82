"""What must hold for every head, beyond its certificate (which test_certificate.py asks about)."""

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drawn_heads import draw, few, heads, many, rotation
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
    weight_intervals,
)

FIELDS = ("nullity", "margin", "verdict", "directions")


def scaled(head, by):
    return dataclasses.replace(head, values=head.values * by)


def rotated(head):
    """Values turned, and the projection turned back."""
    size = head.values.shape[-1]
    turn = rotation(size)
    projection = (
        torch.eye(size, dtype=torch.float64) if head.output_projection is None else head.output_projection
    )
    return dataclasses.replace(head, values=head.values @ turn, output_projection=turn.mT @ projection)


def rekeyed(head):
    """Keys in another basis, moderately skewed."""
    size = head.keys.shape[-1]
    change = rotation(size) * torch.linspace(0.5, 2, size, dtype=torch.float64) @ rotation(size, seed=1)
    return dataclasses.replace(head, keys=head.keys @ change)


def reordered(head, order):
    return dataclasses.replace(
        head,
        weights=head.weights[..., order],
        keys=head.keys[..., order, :],
        values=head.values[..., order, :],
        visible=head.mask[..., order],
        bias=None if head.bias is None else head.bias[..., order],
    )


def padded(head):
    """The head in a batch with one that is larger in every size."""
    wide = AttentionHead.from_query(draw(13), draw(13, 13), draw(13, 23), draw(23, 23), dtype=head.dtype)
    return AttentionHead.stack([wide, head])[1]


def changed_heads(head):
    """The same head in other clothes: tokens stay where they are."""
    return {
        "small values": scaled(head, 1e-6),
        "large values": scaled(head, 1e6),
        "rotated values": rotated(head),
        "keys in another basis": rekeyed(head),
        "padded": padded(head),
    }


def recovered(head, level):
    return recover(
        head.keys,
        head.values,
        head.output_projection,
        head.output,
        level,
        visible=head.visible,
        bias=head.bias,
        dtype=head.dtype,
    )


def close(found, expected, error=1e-8):
    torch.testing.assert_close(found, expected, atol=error, rtol=0)


@many
@given(heads())
def test_verdicts_are_nested(head):
    # Certain among more rows is certain among fewer.
    certificate = certify(head)
    free, simplex, generatable = (int(certificate[level].verdict) for level in Level)
    assert free <= simplex <= generatable
    assert free != Verdict.LOCAL
    assert simplex != Verdict.LOCAL


@many
@given(heads())
def test_recovery_inverts_where_it_is_certain(head):
    certificate = certify(head)
    for level in Level:
        one = certificate[level]
        if int(one.verdict) != Verdict.GLOBAL:
            with pytest.raises(InputError, match="does not fix the weights"):
                recovered(head, level)
        elif float(one.margin) > 1e-6:
            eps = max(head.eps, torch.finfo(torch.float64).eps)
            close(recovered(head, level), head.weights, min(1e-6, 1e3 * eps / float(one.margin)))


@few
@given(heads(carry=True), st.randoms(use_true_random=False))
def test_recovery_depends_on_nothing_else(head, random):
    if int(certify(head).generatable.verdict) != Verdict.GLOBAL:
        return
    for name, changed in changed_heads(head).items():
        found = recovered(changed, "generatable")[: head.weights.shape[-1]]
        torch.testing.assert_close(found, head.weights, atol=1e-6, rtol=0, msg=name)
    order = list(range(head.weights.shape[-1]))
    random.shuffle(order)
    close(recovered(reordered(head, order), "generatable"), head.weights[order], 1e-6)


@many
@given(heads())
def test_effective_attention_is_the_part_that_the_output_sees(head):
    for keep_sum in (False, True):
        effective = effective_attention(head, keep_sum)
        size = max(1.0, float(head.transformed.abs().max()))
        close(effective @ head.transformed / size, head.output / size)
        # What the output does not see is gone: the rest is nearer to 0, or to the uniform row, than any such row.
        assert float(effective.norm()) <= float(head.weights.norm()) + 1e-12
        for name, changed in changed_heads(head).items():
            found = effective_attention(changed, keep_sum)[: effective.shape[-1]]
            torch.testing.assert_close(found, effective, atol=1e-7, rtol=0, msg=name)


@many
@given(heads(), st.randoms(use_true_random=False))
def test_intervals_and_tops_depend_on_nothing_else(head, random):
    intervals, tops = weight_intervals(head), possible_tops(head)
    tokens = head.weights.shape[-1]
    for name, changed in changed_heads(head).items():
        for found, expected in zip(weight_intervals(changed), intervals, strict=True):
            torch.testing.assert_close(found[:tokens], expected, atol=1e-7, rtol=0, msg=name)
        assert possible_tops(changed) == tops, name
    order = list(range(tokens))
    random.shuffle(order)
    changed = reordered(head, order)
    for found, expected in zip(weight_intervals(changed), intervals, strict=True):
        close(found, expected[order], 1e-7)
    assert sorted(order[token] for token in possible_tops(changed)) == tops


@many
@given(heads(), st.sampled_from([0.0, 0.01]))
def test_tops_agree_with_intervals(head, tolerance):
    lower, upper = weight_intervals(head, tolerance=tolerance)
    tops = possible_tops(head, tolerance=tolerance)
    room = 2 * max(head.eps, 1e-9)
    # What is on top is one of them, and so is whatever nothing else can pass.
    assert int(head.weights.argmax()) in tops
    for token in head.mask.nonzero()[:, 0].tolist():
        others = head.mask.clone()
        others[token] = False
        highest = float(upper[others].max()) if bool(others.any()) else 0.0
        surest = float(lower[others].max()) if bool(others.any()) else 0.0
        if float(lower[token]) > highest + room:
            assert tops == [token]
        if float(upper[token]) < surest - room:
            assert token not in tops
    assert set(tops) <= set(head.mask.nonzero()[:, 0].tolist())


@many
@given(heads())
def test_intervals_are_points_where_the_simplex_is_certain(head):
    lower, upper = weight_intervals(head)
    assert (lower <= head.weights).all()
    assert (head.weights <= upper).all()
    if int(certify(head).simplex.nullity) == 0:
        assert bool((upper == lower).all())
        assert (
            possible_tops(head)
            == head.weights.isclose(head.weights.max(), rtol=head.eps).nonzero()[:, 0].tolist()
        )


@few
@given(
    heads() | heads(carry=False, loose=True),
    st.sampled_from([Level.SIMPLEX, Level.GENERATABLE]),
    st.integers(0, 2**32),
)
def test_alternatives_have_the_same_output_and_lie_in_the_intervals(head, level, seed):
    visible = head.mask.nonzero()[:, 0].tolist()
    token = visible[seed % len(visible)]
    # The bounds for outputs as near as that of an alternative; there is no share of an output of zero.
    silent = float(head.output.norm()) == 0
    lower, upper = weight_intervals(head, tolerance=1e-6)
    room = 1e-5 if silent else 1e-8
    verdict = int(certify(head)[level].verdict)
    goals: tuple[dict[str, Any], ...] = ({"favour": token}, {"avoid": token}, {"farthest": True})
    for goal in goals:
        found = alternative(head, level=level, **goal)
        if verdict == Verdict.GLOBAL:
            assert found.status == "unique"
        if found.status != "found":
            assert found.weights is None
            continue
        assert found.weights is not None
        assert verdict == Verdict.NONE or level == Level.GENERATABLE
        moved = float(((found.weights - head.weights) @ head.transformed).norm())
        assert moved <= 1e-6 * float(
            torch.linalg.matrix_norm(head.transformed, 2) if silent else head.output.norm()
        )
        assert (found.weights >= lower - room).all()
        assert (found.weights <= upper + room).all()
        close(found.weights.sum(), head.weights.sum(), 1e-7)
        assert (found.weights[~head.mask] == 0).all()
        if level == Level.GENERATABLE:
            assert found.query is not None
            again = AttentionHead.from_query(
                found.query, head.keys, head.values, None, head.visible, head.scaling, head.bias
            )
            close(again.weights, found.weights, 1e-7)


@few
@given(heads(batch=3), st.randoms(use_true_random=False))
def test_the_certificate_of_a_layer_depends_on_nothing_else(layer, random):
    expected = certify_layer(layer)
    order = list(range(layer.weights.shape[-1]))
    random.shuffle(order)
    clothes = {
        "small values": scaled(layer, 1e-6),
        "large values": scaled(layer, 1e6),
        "rotated values": rotated(layer),
        "keys in another basis": rekeyed(layer),
        "reordered": reordered(layer, order),
        "heads in another order": layer[torch.tensor([2, 0, 1])],
        "padded": AttentionHead.stack([padded(layer[i]) for i in range(3)]),
    }
    for name, changed in clothes.items():
        found = certify_layer(changed)
        for level in Level:
            for field in FIELDS:
                one, other = getattr(found[level], field), getattr(expected[level], field)
                torch.testing.assert_close(one, other, atol=1e-8, rtol=1e-6, msg=f"{name}, {level}, {field}")
