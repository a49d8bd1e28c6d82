"""summary.json: what heads.parquet says of each layer, head and length of text."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from identiformer.auditing.tally import Tally
from identiformer.capturing import CapturedLayer

# The name under which a part of the table keeps what its rows do not tell.
NOTES = b"identiformer"


@dataclass
class PartNotes:
    """What a part of the table knows beside its rows.

    Args:
        lengths: How many texts have so many tokens, special ones included, before truncation.
        truncated: How many texts are longer than the model takes.
        refused: `[layer, head, reason]` of each head of which nothing can be said.
        notes: `[layer, note]` of each layer with something unusual.
        simplex_lengths: For each layer the most tokens that can be identifiable on the simplex, `min(d_v, d_e) + 1`.
    """

    lengths: dict[int, int] = field(default_factory=dict)
    truncated: int = 0
    refused: list[tuple[int, int, str]] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    simplex_lengths: dict[int, int] = field(default_factory=dict)

    def note(self, captured: CapturedLayer) -> None:
        """Keep what a captured layer says beside its heads."""
        for head, reason in captured.refused.items():
            if (captured.layer, head, reason) not in self.refused:
                self.refused.append((captured.layer, head, reason))
        if captured.note and (captured.layer, captured.note) not in self.notes:
            self.notes.append((captured.layer, captured.note))
        if captured.simplex_length is not None:
            self.simplex_lengths[captured.layer] = captured.simplex_length

    def attach(self, table: pa.Table) -> pa.Table:
        """The table with these notes in its metadata."""
        return table.replace_schema_metadata({NOTES: json.dumps(vars(self)).encode()})

    @classmethod
    def of(cls, table: pa.Table) -> PartNotes:
        """The notes that a table was given."""
        kept = json.loads((table.schema.metadata or {})[NOTES])
        return cls(
            lengths={int(length): count for length, count in kept["lengths"].items()},
            truncated=kept["truncated"],
            refused=[(layer, head, reason) for layer, head, reason in kept["refused"]],
            notes=[(layer, note) for layer, note in kept["notes"]],
            simplex_lengths={int(layer): length for layer, length in kept["simplex_lengths"].items()},
        )


class Summary:
    """Adds up the parts of a table, one after another."""

    def __init__(self) -> None:
        self._all = Tally()
        self._by_length: dict[int, Tally] = defaultdict(Tally)
        self._by_layer: dict[int, Tally] = defaultdict(Tally)
        self._by_head: dict[tuple[int, int], Tally] = defaultdict(Tally)
        self._by_head_and_length: dict[tuple[int, int, int], Tally] = defaultdict(Tally)
        self._lengths: Counter[int] = Counter()
        self._truncated = 0
        self.refused: dict[tuple[int, int], str] = {}
        self._notes: dict[tuple[int, str], None] = {}
        self.simplex_lengths: dict[int, int] = {}
        # How many rows of a layer that see so many tokens have such a nullity on the simplex.
        self.nullities: Counter[tuple[int, int, int]] = Counter()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._all.rows

    def add(self, part: pa.Table) -> None:
        """Add a part, with its notes."""
        notes = PartNotes.of(part)
        self._lengths.update(notes.lengths)
        self._truncated += notes.truncated
        self.refused |= {(layer, head): reason for layer, head, reason in notes.refused}
        self._notes |= dict.fromkeys(notes.notes)
        self.simplex_lengths |= notes.simplex_lengths
        if not part.num_rows:
            return
        columns: dict[str, NDArray[Any]] = {
            name: part.column(name).to_numpy(zero_copy_only=False)
            for name in part.column_names
            if name not in ("top_text", "widest_interval")
        }
        self._all.add(columns)
        upper = length_class(columns["tokens"])
        keys = np.stack([columns["layer"], columns["head"], upper], axis=1).astype(np.int64)
        groups, member = np.unique(keys, axis=0, return_inverse=True)
        order = np.argsort(member.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(member.ravel(), minlength=len(groups)))
        for (layer, head, length), places in zip(groups.tolist(), np.split(order, ends[:-1]), strict=True):
            chosen = {name: column[places] for name, column in columns.items()}
            for tally in (
                self._by_length[length],
                self._by_layer[layer],
                self._by_head[layer, head],
                self._by_head_and_length[layer, head, length],
            ):
                tally.add(chosen)
        kinds, counts = np.unique(
            np.stack([columns[name] for name in ("layer", "tokens", "simplex_nullity")], axis=1).astype(
                np.int64
            ),
            axis=0,
            return_counts=True,
        )
        self.nullities.update(
            {(layer, n, k): c for (layer, n, k), c in zip(kinds.tolist(), counts.tolist(), strict=True)}
        )

    def to_dict(self) -> dict[str, Any]:
        """The contents of summary.json but for what the audit itself knows (model, source, settings, proof).

        `texts`: `number`, `truncated` (their share), and `lengths`, a list of `[tokens, texts]`. `all`, and each
        entry of `layers`, `heads` and `by_length`: see `Tally.to_dict`; lengths are classes `from` .. `to`, in tokens
        that a row sees. `refused`: heads of which nothing can be said, with the reason.
        """
        texts = self._lengths.total()
        return {
            "texts": {
                "number": texts,
                "truncated": self._truncated / texts if texts else None,
                "lengths": sorted(self._lengths.items()),
            },
            "all": self._all.to_dict(),
            "by_length": _classes(self._by_length),
            "layers": [
                {"layer": layer, "simplex_length": self.simplex_lengths.get(layer), **tally.to_dict()}
                for layer, tally in sorted(self._by_layer.items())
            ],
            "heads": [
                {
                    "layer": layer,
                    "head": head,
                    **tally.to_dict(),
                    "by_length": _classes(
                        {
                            n: t
                            for (la, he, n), t in self._by_head_and_length.items()
                            if (la, he) == (layer, head)
                        }
                    ),
                }
                for (layer, head), tally in sorted(self._by_head.items())
            ],
            "refused": [
                {"layer": layer, "head": head, "reason": reason}
                for (layer, head), reason in sorted(self.refused.items())
            ],
            "notes": [{"layer": layer, "note": note} for layer, note in sorted(self._notes)],
        }


def length_class(tokens: NDArray[Any]) -> NDArray[np.int64]:
    """The upper end of each length's class: 8, 16, 32, … tokens, each class twice as long as the one before."""
    doubled = np.ceil(np.log2(np.maximum(tokens, 8).astype(np.float64)))
    return (2**doubled).astype(np.int64)


def _classes(tallies: dict[int, Tally]) -> list[dict[str, Any]]:
    return [
        {"from": 1 if upper == 8 else upper // 2 + 1, "to": upper, **tally.to_dict()}
        for upper, tally in sorted(tallies.items())
    ]
