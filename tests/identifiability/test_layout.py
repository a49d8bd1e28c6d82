import torch

from identiformer.identifiability import AttentionHead
from identiformer.identifiability.layout import Layout
from spectra import draw


def test_layout_of_heads_and_rows():
    head = AttentionHead.from_query(
        draw(2, 3, 5, 7), draw(2, 3, 1, 11, 7), draw(3, 1, 11, 5), draw(3, 1, 5, 23)
    )
    layout = Layout.of(head)
    assert (layout.heads, layout.rows) == ((2, 3), (5,))
    assert layout.by_row(head.weights, 1).shape == (6, 5, 11)
    assert (layout.batch(layout.by_row(head.weights, 1), 1) == head.weights).all()
    flat = layout.by_head(head.values, 2)
    assert flat.shape == (6, 11, 5)
    for i in range(2):
        for j in range(3):
            assert (flat[3 * i + j] == head.values[j, 0]).all()
    numbers = torch.arange(6)
    assert (layout.batch(numbers) == numbers.view(2, 3, 1).expand(2, 3, 5)).all()
    listed = layout.list_of(head, torch.tensor([4, 1]))
    assert (listed.values[0] == head.values[1, 0]).all()
    assert (listed.keys[0] == head.keys[1, 1, 0]).all()
    # A mask of their own makes heads of rows; nothing shared at all, and nothing but rows.
    causal = torch.ones(5, 11, dtype=torch.bool)
    causal[0, 3:] = False
    weights = (torch.full((5, 11), 1 / 3) * causal[:1]).expand(2, 3, 5, 11)
    own = AttentionHead(weights, head.keys, head.values, visible=causal)
    assert (Layout.of(own).heads, Layout.of(own).rows) == ((2, 3, 5), ())
    alone = AttentionHead(draw(5, 11).softmax(dim=-1), draw(11, 7), draw(11, 3))
    assert (Layout.of(alone).heads, Layout.of(alone).rows) == ((), (5,))
