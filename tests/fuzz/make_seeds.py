"""make_seeds.py FOLDER: texts from which fuzzers set out, FOLDER/<fuzzer>/<number>, where bytes at random would hardly come: schemas, expressions, grammars,
templates and calls of tools that are well formed, of all that is known here."""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "truth"))
os.environ.setdefault("LONGHAUL_BUILD", "")

import test_regex  # noqa: E402
from jinja_templates import Grammar  # noqa: E402
from random_schemas import RandomSchemas  # noqa: E402

SCHEMAS = 150
TEMPLATES = 300
GRAMMARS = (
    'root ::= "a" | "b" root',
    'root ::= object\nvalue ::= object | array | string | number | "true" | "null"\nobject ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}"\n'
    'array ::= "[" ws (value ("," ws value)*)? "]"\nstring ::= "\\"" ([^"\\\\\\x7F\\x00-\\x1F] | "\\\\" (["\\\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\\""\n'
    'number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?\nws ::= | " " | "\\n" [ \\t]{0,20}\n',
    'root ::= (expr "=" term "\\n")+ # sums\nexpr ::= term ([-+*/] term)*\nterm ::= [a-z] [a-z0-9_]* | [0-9]+ | "(" expr ")"\n',
    'root ::= [\\u3040-\\u309F\\u4E00-\\u9FFF]{1,30} ("\\u3002" | "\\U0001F600")?',
    'root ::= "x"{3} "y"{2,} "z"{0,1000000000} .',
    'root ::= x{70,200} "c"\nx ::= ("a" | "ab" | )* y?\ny ::= "b" x "b"\n',
)
# The number of a format in fuzz_tool_calls.c, and what a model writes.
CALLS = (
    (0, '<tool_call>\n{"name": "f", "arguments": {"a": "}"}}\n</tool_call>\n<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'),
    (0, 'I look. <tool_call>{"arguments": {"a": [1, "</tool_call>"]}, "name": "f"}</tool_call> so'),
    (1, '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "abcdefghi"}, {"name": "g", "arguments": {"b": "\\u00e9"}}]'),
    (2, '[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{"a": "\\""}'),
    (3, '<|tool_call|>[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]'),
    (4, '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>'),
    (4, ' to=functions.f<|channel|>commentary json<|message|>{"a": {"b": []}}'),
    (5, '{"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}'),
    (5, '<|python_tag|>{"name": "f", "parameters": {"a": null}}'),
    (6, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
    (7, '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'),
    (8, "<tool_call>\n<function=f>\n<parameter=a>\n1 < 2\n</parameter>\n<parameter=b>\ntrue\n</parameter>\n</function>\n</tool_call>"),
    (9, "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n</seed:tool_call>"),
)
# Of what the model in fuzz_weight_digests.c has.
DIGESTS = (
    {"tensors": {"token_embd.weight": "00" * 32, "blk.0.attn_q.weight": "a1" * 32, "nowhere": "b2" * 32}},
    {"tensors": {"blk.0.ffn_down.weight": "c3" * 32}, "blocks": {"rows": 32, "url": "/blocks", "pieces_url": "http://a/pieces",
                                                              "sha256": {"blk.0.ffn_down.weight": "d4" * 32}}},
    {"tensors": {}, "blocks": {"rows": 1024, "url": "x" * 511, "sha256": {}}},
)
LARK = ('start: begin hunk+ end\nbegin: "*** Begin" LF\nend: "x"i LF?\nhunk: "+" /(.*)/ LF -> line | ("a".."z" /[0-9]{2}\\/x/)~2..3\n%import common (LF, WS -> W)\n%ignore W\n',
        '?start: item (_COMMA item)*\n!item.2: WORD | "(" start ")" | [WORD]\n_COMMA.1: ","\nWORD: LETTER+\nLETTER: "a".."z"\n')
PIECES = (b"0-10-20-3", b"7-1-1-1000000", b"999999-1-18446744073709551615-1", b"0-1-18446744073709551615-2")


def seeds():
    for seed in range(SCHEMAS):
        yield "fuzz_json_schema", json.dumps(RandomSchemas(seed).whole()[0], ensure_ascii=False).encode()
    for number, pattern in enumerate(test_regex.FIXED + test_regex.REFUSED):
        yield "fuzz_regex", bytes([number % 4]) + pattern.encode()
    for grammar in GRAMMARS:
        yield "fuzz_gbnf", grammar.encode()
    for grammar in LARK:
        yield "fuzz_lark", grammar.encode()
    for seed in range(TEMPLATES):
        yield "fuzz_jinja", Grammar(seed).template().encode()
    for path in sorted((pathlib.Path(__file__).resolve().parents[1] / "vectors" / "chat_templates").glob("*.jinja")):
        yield "fuzz_jinja", path.read_bytes()
    for document in DIGESTS:
        yield "fuzz_weight_digests", json.dumps(document).encode()
    for pieces in PIECES:
        yield "fuzz_file_pieces", pieces
    for number, (format, text) in enumerate(CALLS):
        yield "fuzz_tool_calls", bytes([format, number]) + text.encode()


def main():
    counts = {}
    for name, data in seeds():
        folder = pathlib.Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        counts[name] = counts.get(name, 0) + 1
        (folder / str(counts[name])).write_bytes(data)


if __name__ == "__main__":
    main()
