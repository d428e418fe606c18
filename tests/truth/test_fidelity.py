"""Longhaul's next-token distributions beside numpy's, over 2,046 tokens of public text (fidelity.npz, made by
make_fidelity_vectors.py). The divergence is over the 64 most probable tokens of the reference and the rest as one.
With LONGHAUL_TEST_QUICK the first 512 of them, and no file of F16.
The bound on int8 activations is what llama.cpp (0c1e57098, CPU) shows on this text: mean KL 5.41e-3, same arg-max 96.04 %."""
import os
import pathlib
import sys
import tempfile

import numpy as np

import make_f16_model
from longhaul_logits import longhaul_logits

TESTS = pathlib.Path(__file__).parent.parent
sys.path.append(str(TESTS / "system"))
from default_model import default_model  # noqa: E402

WINDOW = 512
OPTIONS = ["--stages", "2", "--column-shards", "4", "--chunk-rows", "64", "--threads", "2"]


def windows(model, activations, tokens):
    """(start, [tokens][vocabulary]) from the C code."""
    for start in range(0, len(tokens), WINDOW):
        yield start, longhaul_logits(model, tokens[start : start + WINDOW], *OPTIONS, "--activations", activations)


def compare(logits, ids, logprobs):
    """(KL divergence reference || ours, whether the arg-max is the same), for each row."""
    logits = logits.astype(np.float64)
    ours = logits - logits.max(axis=1, keepdims=True)
    ours -= np.log(np.exp(ours).sum(axis=1, keepdims=True))
    same = ours.argmax(axis=1) == ids[:, 0]
    ours = np.take_along_axis(ours, ids.astype(np.int64), axis=1)
    reference = logprobs.astype(np.float64)
    rest = np.maximum(1 - np.exp(reference).sum(axis=1), 1e-12)
    ours_rest = np.maximum(1 - np.exp(ours).sum(axis=1), 1e-12)
    divergence = (np.exp(reference) * (reference - ours)).sum(axis=1) + rest * np.log(rest / ours_rest)
    return divergence, same


def main():
    model = default_model()
    if not model:
        print("skipped: LONGHAUL_TEST_MODEL does not name SmolLM2-135M-Instruct.Q4_1.gguf, and deploy/fetch-model gets none")
        return 77
    vectors = np.load(TESTS / "vectors" / "fidelity.npz")
    is_quick = os.environ.get("LONGHAUL_TEST_QUICK")
    tokens = vectors["tokens"][: WINDOW if is_quick else None]
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        f16 = pathlib.Path(name) / "f16.gguf"
        if not is_quick:
            make_f16_model.convert(model, f16)
        for title, file, activations, references in (
            ("F16 file", f16, "q8", {"exact_f16": (1e-5, 0.999)}),
            ("Q4_1 file", model, "q8", {"int8_q4_1": (1e-5, 0.999), "exact_q4_1": (5.42e-3, 0.96)}),
            ("Q4_1 file with q16", model, "q16", {"exact_q4_1": (1e-5, 0.999)}),
        ):
            if is_quick:  # what llama.cpp shows is the mean over all of the text
                references = {key: bounds for key, bounds in references.items() if file is model and bounds[0] == 1e-5}
            results = {key: [] for key in references}
            for start, logits in windows(file, activations, tokens) if references else ():
                rows = slice(start, start + len(logits))
                for key in references:
                    results[key].append(compare(logits, vectors[key + "_ids"][rows], vectors[key + "_logprobs"][rows]))
            for key, (divergence_max, same_min) in references.items():
                divergence = np.concatenate([r[0] for r in results[key]])
                same = np.concatenate([r[1] for r in results[key]])
                good = len(divergence) == len(tokens) and divergence.mean() < divergence_max and same.mean() >= same_min
                failures += not good
                print(
                    f"{'ok  ' if good else 'FAIL'} {title} against {key}: mean KL {divergence.mean():.3g} (< {divergence_max:g}), "
                    f"max {divergence.max():.3g}, same arg-max {100 * same.mean():.2f} % (>= {100 * same_min:g} %), "
                    f"{len(divergence)} positions", flush=True,
                )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
