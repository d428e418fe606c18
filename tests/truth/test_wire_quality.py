"""What f16 and q8 between stages may cost, on 256 tokens of public text and three stages, and in the KV cache: tests/bench/wire_quality.py
in short.

Bounds are about twice what this text shows. With F16 matrices the wire's own cost shows: f16 gives a mean KL of 5e-7, q8 6e-3.
With the Q4_1 file the activations' own 8 bits in each layer, which the least change tips over, give f16 5e-3 and q8 1.3e-2. The
perplexity of so few tokens moves by 2 % at most, and down as well as up: the bound there catches what is broken."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "bench"))
sys.path.append(str(pathlib.Path(__file__).parent.parent / "system"))

import wire_quality
from default_model import default_model
from wire_quality import make_f16_model

TOKENS, STAGES = 256, 3
# file: (wire, KV cache): (mean KL, share of positions with another arg-max, relative change of perplexity)
BOUNDS = {
    "F16": {
        ("f32", "f32"): (0, 0, 0),
        ("f16", "f32"): (1e-6, 0.005, 1e-3),
        ("q8", "f32"): (1e-2, 0.06, 0.03),
        ("f32", "f16"): (4e-6, 0.008, 1e-3),
        ("f32", "q8"): (4e-3, 0.05, 0.03),
    },
    "Q4_1": {
        ("f32", "f32"): (0, 0, 0),
        ("f16", "f32"): (1.2e-2, 0.07, 0.03),
        ("q8", "f32"): (2.5e-2, 0.1, 0.03),
        ("f32", "f16"): (1.6e-2, 0.08, 0.03),
        ("f32", "q8"): (2e-2, 0.09, 0.03),
    },
}


def check(title, model, bounds):
    tokens = wire_quality.contexts(model)[0][:TOKENS]
    exact = wire_quality.reference(model, tokens)
    following = tokens[1:].astype(int)
    perplexity = float(wire_quality.np.exp(-exact[range(len(following)), following].mean()))
    good = True
    for (wire, kv_type), (divergence_max, other_max, change_max) in bounds.items():
        quality = wire_quality.measure(exact, wire_quality.run(model, tokens, STAGES, wire, kv_type), tokens)
        divergence, other = max(quality.divergence.mean(), 0), 1 - quality.same.mean()
        change = abs(quality.perplexity / perplexity - 1)
        # The reference is kept in single precision: a few 1e-8 of divergence are its own.
        holds = len(quality.divergence) == TOKENS and divergence <= divergence_max + 1e-7
        holds = holds and other <= other_max and change <= change_max + 1e-6
        good = good and holds
        print(
            f"{'ok  ' if holds else 'FAIL'} {title}, wire {wire}, KV {kv_type}: mean KL {divergence:.2g} (<= {divergence_max:g}), other arg-max "
            f"{100 * other:.2f} % (<= {100 * other_max:g} %), perplexity {quality.perplexity:.3f}, f32's {perplexity:.3f}",
            flush=True,
        )
    return good


def main():
    model = default_model()
    if not model:
        print("skipped: LONGHAUL_TEST_MODEL does not name SmolLM2-135M-Instruct.Q4_1.gguf, and deploy/fetch-model gets none")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        converted = pathlib.Path(folder) / "f16.gguf"
        make_f16_model.convert(model, converted)
        results = [check(title, file, BOUNDS[title]) for title, file in (("F16", converted), ("Q4_1", model))]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
