"""The grammars that people share, those of llama.cpp, compile and match what they say (llama_cpp.py fetches them; without a network the test is
skipped). What PyPI's llguidance makes of the same texts is compared, too."""
import os
import pathlib
import subprocess
import sys

import llama_cpp

try:
    import llguidance
    from llguidance.gbnf_to_lark import any_to_lark
except ImportError:
    llguidance = None

TOOL = pathlib.Path(os.environ["LONGHAUL_BUILD"]) / "tests" / "constraint_match"
# Grammar: texts that it matches, texts that it does not.
TEXTS = {
    "arithmetic.gbnf": (["1+2=3\n", "a*b=c\nx-1=2\n"], ["1+2", "x = (1 + 2) * 3\n"]),
    "c.gbnf": (["int main(){return 0;}"], ["int main({return 0;}"]),
    "chess.gbnf": (["1. e4 e5\n2. Nf3 Nc6\n"], ["1. z9\n", "1. e4"]),
    "english.gbnf": (["Hello there."], ["日本"]),
    "japanese.gbnf": (["これは日本語です", "一行\n二行"], ["hello"]),
    "json.gbnf": (['{"a": [1, 2.5e3, "x\\n", null]}', "{}"], ['{"a":}', "[1]", '{"a":1,}']),
    "json_arr.gbnf": (["[\n1,\n{}\n]"], ["{}"]),
    "list.gbnf": (["- a\n- b\n"], ["a\n"]),
}

# llguidance reads as much white space as there is, so that nothing is left of it for what follows.
TAKEN_OTHERWISE = {"arithmetic.gbnf"}


def is_accepted(grammar, text):
    """By llguidance, another implementation: byte by byte, whole."""
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(any_to_lark(grammar)))
    assert not matcher.get_error(), matcher.get_error()
    tokens = tokenizer.tokenize_str(text)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def main():
    try:
        grammars = sorted(llama_cpp.folder("gbnf").glob("*.gbnf"))
    except llama_cpp.NotFetched as problem:
        print(f"skipped: {problem}")
        return 77
    lines = []
    for path in grammars:
        matched, refused = TEXTS.get(path.name, ([], []))
        lines.append((path.name, "g", path.read_bytes(), "ok"))
        lines += [(path.name, "t", text.encode(), "1") for text in matched] + [(path.name, "t", text.encode(), "0") for text in refused]
    data = "".join(f"{kind} {text.hex()}\n" for _, kind, text, _ in lines)
    answers = subprocess.run([TOOL], input=data, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(answers) == len(lines)
    wrong = [(name, text[:80], answer) for (name, _, text, right), answer in zip(lines, answers) if answer != right]
    if llguidance:
        others = [(path, text, right) for path in grammars if path.name not in TAKEN_OTHERWISE for right, texts in zip((True, False), TEXTS.get(path.name, ([], [])))
                  for text in texts]
        wrong += [(path.name, text, "llguidance says otherwise") for path, text, right in others if is_accepted(path.read_text(), text) != right]
    for problem in wrong:
        print(*problem)
    print(f"{len(grammars)} grammars, {len(lines)} lines, {len(wrong)} wrong")
    return 1 if wrong or len(grammars) < len(TEXTS) else 0


if __name__ == "__main__":
    sys.exit(main())
