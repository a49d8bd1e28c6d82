"""From a request to its answer, against explaining alone, in one run.

    python benchmarks/serving.py [MODEL] [--rounds 30]

Asks a server in a process of its own for explanations of texts of several lengths, as the live page does, and for an
alternative; and explains the same in this process. Prints the median milliseconds from the first byte of a request to
the last of its answer, and how many times as long as `explain` alone that is: the median of paired rounds, the
quartiles in brackets. MODEL is a model folder; without one, an untrained model of the default sizes answers.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from measuring import Spread, always, measure

from identiformer.cli.options import quiet_libraries
from identiformer.explaining.asked import explain_alternative
from identiformer.explaining.explanation import explain
from identiformer.loading import load_classifier
from identiformer.model import IdentiformerConfig, IdentiformerForSequenceClassification
from identiformer.tokenization import build_tokenizer

SENTENCE = "the soup was cold and the waiter was rude , but the dessert that came in the end was wonderful . "
LENGTHS = (12, 40, 100)  # words


def untrained(folder: Path) -> str:
    """A model of the default sizes, saved."""
    tokenizer = build_tokenizer([SENTENCE] * 2, min_frequency=1, model_max_length=128)
    torch.manual_seed(0)
    IdentiformerForSequenceClassification(IdentiformerConfig(vocab_size=len(tokenizer))).save_pretrained(
        folder
    )
    tokenizer.save_pretrained(folder)
    return str(folder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    quiet_libraries()
    with tempfile.TemporaryDirectory() as folder:
        name: str = given.model or untrained(Path(folder))
        server = subprocess.Popen(
            [sys.executable, "-c", "from identiformer.cli import main; main()", "serve", name, "--port", "0"],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stderr is not None
            ready = server.stderr.readline()
            port = re.search(r":(\d+)/$", ready.strip())
            if port is None:
                raise SystemExit(ready + server.stderr.read())
            compare(name, int(port[1]), given.rounds)
        finally:
            server.terminate()
            server.wait()


def compare(name: str, port: int, rounds: int) -> None:
    """Time a server that runs against the same work here."""
    model, tokenizer = load_classifier(name)
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask(path: str, question: dict[str, Any]) -> bytes:
        connection.request("POST", path, json.dumps(question), {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise SystemExit(body.decode())
        return body

    print(f"{name}, last layer, pooled row, one thread; milliseconds, and times as long as alone")
    for words in LENGTHS:
        text = " ".join((SENTENCE * 10).split()[:words])
        row = {"layer": model.config.num_hidden_layers - 1, "head": 0, "row": 0}
        goal: dict[str, Any] = {"goal": "favour", "word": 2}
        for what, path, question, alone in (
            ("explanation", "/api/explain", {}, lambda: explain(model, tokenizer, text).to_dict()),  # noqa: B023
            (
                "alternative",
                "/api/alternative",
                row | goal,
                lambda: explain_alternative(model, tokenizer, text, **row, **goal).to_dict(),  # noqa: B023
            ),
        ):
            asked = {"text": text, **question}
            seconds = measure(
                {"served": always(lambda: ask(path, asked)), "alone": always(alone)},  # noqa: B023
                rounds,
                warm_ups=2,
            )
            milliseconds = Spread.of(1000 * seconds["served"])
            ratio = Spread.of(seconds["served"] / seconds["alone"])
            print(f"{words:4d} words, {what}: {milliseconds.show()} ms, {ratio.show()} times")


if __name__ == "__main__":
    main()
