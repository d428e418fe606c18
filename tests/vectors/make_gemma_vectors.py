#!/usr/bin/env python3
"""Writes gemma.json, what others say of gemma-3-270m: the greedy continuation of a prompt that is longer than its sliding window, with the
most probable tokens at each place, by tests/truth/numpy_model.py in float64; and texts with their token ids, by the `sentencepiece` library.

    make_gemma_vectors.py MODEL.gguf        (a minute)

Needs the Python packages that make_spm_vectors.py needs.
"""
import json
import pathlib
import sys

import numpy as np
import sentencepiece
from make_spm_vectors import SPACE, library, of_gguf

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "truth"))
from numpy_model import Exact, Model, log_softmax  # noqa: E402

CHARACTERS = 3000  # of constitution.txt: 607 tokens, and the window is 512
TOKENS, TOP = 4, 20
BOS = 2
TEXTS = [
    "Die Größe der Übung läßt grüßen: äöüÄÖÜß, naïve façade",
    "人人生而自由，在尊严和权利上一律平等。 すべての人間は 모든 인간은",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f",
    "\U000109c3\U0001fae9 are in no vocabulary: \U0001fae9\U0001fae9",
    "  two spaces,   three\n\n\nthree lines\t\ttabs 1234567890",
    "<start_of_turn> is text here, <b>bold</b>",
]


def dumps(value):
    return json.dumps(value, separators=(",", ":"))


def continuation(model, tokens, spm):
    """TOKENS times the TOP most probable tokens with their logprobs, the first of which goes on."""
    tokens, found = list(tokens), []
    for _ in range(TOKENS):
        row = log_softmax(model.logits(np.array(tokens), Exact(), slice(-1, None)))[0]
        best = [int(token) for token in np.argsort(-row, kind="stable")[:TOP]]
        found.append({spm.id_to_piece(token).replace(SPACE, " "): round(float(row[token]), 6) for token in best})
        tokens.append(best[0])
    return found


def main(path):
    spm = library(of_gguf(path))
    model = Model(path)
    prompt = (HERE / "constitution.txt").read_text()[:CHARACTERS]
    tokens = [BOS] + spm.encode(prompt, out_type=int)
    assert len(tokens) > model.window + 64, len(tokens)
    head = {"made by": f"make_gemma_vectors.py, sentencepiece {sentencepiece.__version__}", "characters": CHARACTERS, "tokens": len(tokens)}
    lists = {"continuation": continuation(model, tokens, spm), "texts": [[text, spm.encode(text, out_type=int)] for text in TEXTS]}
    body = ", ".join(f'"{name}": [\n' + ",\n".join(map(dumps, values)) + "\n]" for name, values in lists.items())
    (HERE / "gemma.json").write_text(dumps(head)[:-1] + ", " + body + "}\n")
    model.window = len(tokens) + TOKENS
    first, far = (next(iter(found[0].items())) for found in (lists["continuation"], continuation(model, tokens, spm)))
    print(f"{len(tokens)} tokens; first {first}, and {far} if there were no window")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
