#!/usr/bin/env python3
"""Writes spm.json: three small SentencePiece vocabularies, trained here, and texts with the token ids that the `sentencepiece`
library gives them.

    make_spm_vectors.py
    make_spm_vectors.py MODEL.gguf OUT.json [COUNT]

With a GGUF whose tokenizer.ggml.model is "llama" the library gets that file's tokens, scores and types, and the ids of COUNT texts
(2,000) go to OUT.json; then LONGHAUL_TEST_SPM_MODEL=MODEL.gguf LONGHAUL_TEST_SPM_VECTORS=OUT.json test_spm_vectors compares.

Needs the Python packages sentencepiece and protobuf, besides those of make_tokenizer_vectors.py.
"""
import io
import json
import pathlib
import random
import sys

import sentencepiece
from make_tokenizer_vectors import SENTENCES, WORDS, random_text, texts
from sentencepiece import sentencepiece_model_pb2

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # the same numbers in GGUF and SentencePiece
SPACE = "\u2581"
RUNS = [c * n for c in ("\n", SPACE, "\t") for n in range(2, 9)]
# As the models that people have: Llama 2 and Mistral 7B; Gemma; one of before there was byte fallback.
MODELS = {
    "llama": {"add_dummy_prefix": True, "byte_fallback": True, "allow_whitespace_only_pieces": True},
    "gemma": {"add_dummy_prefix": False, "byte_fallback": True, "split_digits": True, "user_defined_symbols": RUNS + ["<b>", "</b>", "\n"]},
    "no bytes": {"add_dummy_prefix": True, "byte_fallback": False, "allow_whitespace_only_pieces": True},
}
# What makes a difference here and not for byte-level vocabularies. (Rows of U+2581 are left out: for Longhaul, as for llama.cpp, they
# are spaces, but no user-defined tokens of several spaces.)
OWN = [
    "", " ", "  ", "\n", SPACE, f"a{SPACE}b", f"{SPACE}the", "the", " the", "  the", "the ", "\nthe", "the\n\n\nand", "a  b   c    d",
    "<b>bold</b> <b> x</b>", "<b", "b>", "<0x0A>", "<0x41><0x00>", "<unk>", "<s></s>", "<s>the</s>", "\u4e2d\u6587\u5b57", "\u4e2da\u6587", "\U0001f600\U0001f600 \U0001f600",
    "\u2582\u2580\u2581\u2583", "e\u0301\u0301", "1234567890", "3.14 42", "x" * 100, "the" * 50, " " * 50, "\n" * 50, "\t" * 40, "\x00", "a\x00b", "\ufeffa", "\ufffd\ufffe",
]


def library(proto):
    return sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())


def train(options):
    out = io.BytesIO()
    rng = random.Random(6)
    lines = [" ".join(rng.choices(WORDS, k=12)) for _ in range(400)] + SENTENCES * 2
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, model_type="bpe", vocab_size=900 if options["byte_fallback"] else 640, num_threads=1,
        normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.98, minloglevel=2, **options)
    return sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())


def of_gguf(path):
    from gguf import GGUFReader

    reader = GGUFReader(path)
    value = lambda key, default: reader.fields[f"tokenizer.ggml.{key}"].contents() if f"tokenizer.ggml.{key}" in reader.fields else default
    proto = sentencepiece_model_pb2.ModelProto()
    unknown = value("unknown_token_id", None)
    for i, (token, score, kind) in enumerate(zip(value("tokens", None), value("scores", None), value("token_type", None))):
        if kind == USER_DEFINED:
            token = token.replace(" ", SPACE)
        proto.pieces.add(piece=token, score=score, type=UNKNOWN if i == unknown else kind)
    kinds = {piece.type for piece in proto.pieces}
    proto.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = BYTE in kinds
    proto.trainer_spec.unk_id = unknown
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = bool(value("add_space_prefix", True))
    proto.normalizer_spec.remove_extra_whitespaces = False
    proto.normalizer_spec.escape_whitespaces = True
    return proto


def vocabulary(proto):
    return {"tokens": [p.piece for p in proto.pieces], "scores": [p.score for p in proto.pieces], "types": [p.type for p in proto.pieces],
            "space": proto.normalizer_spec.add_dummy_prefix}


def dumps(value):
    return json.dumps(value, separators=(",", ":"))


def write(path, cases, models):
    """models: name, vocabulary or {}, library."""
    head = {"made by": f"make_spm_vectors.py, sentencepiece {sentencepiece.__version__}"}
    lines = ",\n".join(dumps([text, [lib.encode(text, out_type=int) for _, _, lib in models]]) for text in cases)
    names = ",\n".join(dumps({"name": name, **known}) for name, known, _ in models)
    body = dumps(head)[:-1] + ', "models": [\n' + names + '\n], "cases": [\n' + lines + "\n]}\n"
    path.write_text(body)
    print(f"{len(cases)} texts, {len(body)} bytes")


def main(arguments):
    if not arguments:
        protos = {name: train(options) for name, options in MODELS.items()}
        cases = OWN + SENTENCES + texts()[len(SENTENCES)::5]
        write(pathlib.Path(__file__).with_name("spm.json"), cases, [(name, vocabulary(p), library(p)) for name, p in protos.items()])
        return
    rng = random.Random(20261121)
    count = int(arguments[2]) if len(arguments) == 3 else 2000
    cases = OWN + texts()
    cases += [random_text(rng, i % 9) for i in range(count - len(cases))]
    write(pathlib.Path(arguments[1]), cases[:count], [(pathlib.Path(arguments[0]).stem, {}, library(of_gguf(arguments[0])))])


if __name__ == "__main__":
    if len(sys.argv) not in (1, 3, 4):
        sys.exit(__doc__)
    main(sys.argv[1:])
