import torch

from identiformer.identifiability import AttentionHead, effective_attention


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_by_hand():
    # T = (3, 4): the projector is T T' / 25, and a T = 7/2.
    head = AttentionHead(torch.tensor([0.5, 0.5]), torch.ones(2, 3), torch.tensor([[3.0], [4.0]]))
    expected = torch.tensor([0.42, 0.56], dtype=torch.float64)
    torch.testing.assert_close(effective_attention(head), expected)
    # With the ones vector the column space is everything.
    torch.testing.assert_close(effective_attention(head, keep_sum=True), head.weights)


def test_output_and_sum_are_kept():
    visible = torch.rand(3, 11, generator=torch.Generator().manual_seed(0)) < 0.8
    visible[:, 0] = True
    head = AttentionHead.from_query(draw(3, 5), draw(3, 11, 5), draw(11, 3), draw(3, 7), visible=visible)
    for keep_sum in (False, True):
        effective = effective_attention(head, keep_sum=keep_sum)
        output = (effective[:, None, :] @ head.transformed)[:, 0]
        torch.testing.assert_close(output, head.output)
        assert (effective[~visible] == 0).all()
        # Nothing of what the output does not see is left: it is made of columns of T, and of ones.
        ones = visible[..., None].to(torch.float64)
        columns = torch.cat([head.transformed, ones], dim=-1) if keep_sum else head.transformed
        made = columns @ torch.linalg.pinv(columns) @ effective[..., None]
        torch.testing.assert_close(made[..., 0], effective)
    torch.testing.assert_close(effective.sum(dim=-1), head.weights.sum(dim=-1))
    assert (effective < 0).any()


def test_zero_values_leave_nothing_but_the_sum():
    head = AttentionHead(torch.tensor([0.7, 0.2, 0.1]), torch.ones(3, 5), torch.zeros(3, 7))
    assert (effective_attention(head) == 0).all()
    expected = torch.full((3,), 1 / 3, dtype=torch.float64)
    torch.testing.assert_close(effective_attention(head, keep_sum=True), expected, atol=1e-7, rtol=0)
