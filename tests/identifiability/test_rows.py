import pytest
import torch

from identiformer.errors import InputError
from identiformer.identifiability import AttentionHead
from identiformer.identifiability.rows import one_row


def batch(*shape):
    generator = torch.Generator().manual_seed(0)
    weights = torch.softmax(torch.randn(*shape, 7, generator=generator), dim=-1)
    keys = torch.randn(*shape, 7, 3, generator=generator)
    return AttentionHead(weights, keys, keys)


def test_the_row_that_is_asked_for():
    heads = batch(3, 5)
    for row in ((0, 0), (2, 4), (-1, 1)):
        one = one_row(heads, row)
        assert one.batch_shape == ()
        assert torch.equal(one.weights, heads.weights[row])
        assert torch.equal(one.keys, heads.keys[row])
    heads = batch(5)
    assert torch.equal(one_row(heads, 3).weights, heads.weights[3])
    assert torch.equal(one_row(heads, (3,)).weights, heads.weights[3])


def test_a_head_that_is_one_row():
    head = batch()
    assert one_row(head) is head
    assert torch.equal(one_row(head, ()).weights, head.weights)


@pytest.mark.parametrize(
    ("shape", "row", "message"),
    [
        ((3, 5), None, r"no row is given, but .* batch shape \(3, 5\): .* as in row=\(0, 0\)$"),
        ((3, 5), 1, r"row 1 is asked for, but .* batch shape \(3, 5\): .* as in row=\(0, 0\)$"),
        ((3,), None, r"batch shape \(3,\): give an index for each dimension, as in row=0$"),
        ((3,), (0, 0), r"row \(0, 0\) is asked for"),
        ((3, 5), (0, 5), r"there is no row \(0, 5\): the head has batch shape \(3, 5\)"),
        ((3,), -4, "there is no row -4"),
        ((), 0, "row 0 is asked for, but the head is one row, without batch dimensions: leave row out$"),
    ],
)
def test_what_is_not_one_row(shape, row, message):
    with pytest.raises(InputError, match=message) as caught:
        one_row(batch(*shape), row)
    assert "\n" not in str(caught.value)
