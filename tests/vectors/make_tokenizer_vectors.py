#!/usr/bin/env python3
"""Writes tokenizer.json: texts and their token ids by the `tokenizers` library, built from a GGUF's vocabulary and merges.

    make_tokenizer_vectors.py MODEL.gguf

The vocabulary is the file's; each pre-tokenizer that Longhaul knows is put in front of it in turn, since the two are
independent. No special tokens are added: these are the ids of a user's text. Expressions are the models' own
(tokenizer.json); ids equal to those of the pre-tokenizer before in the list are written as null.
"""
import json
import pathlib
import random
import sys
import unicodedata

import tokenizers
from gguf import GGUFReader
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SEED_CODER = LLAMA3.replace("{1,3}", "").replace("]+[\\r\\n]*|", "]+|", 1)
VIKING = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
DEEPSEEK_CASED = (
    "\u0041-\u005a\u0061-\u007a\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
    "\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d"
    "\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
    "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f"
    "\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
DEEPSEEK_LLM = [
    r"[\r\n]", rf"\s?[{DEEPSEEK_CASED}]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$",
    "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
]
DEEPSEEK_V3 = [
    r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
KIMI = O200K.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace(r"[\r\n/]*", r"[\r\n]*")
BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
EXAONE_MOE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]"
    r"|\s+(?!\S)|\s+"
)
MINICPM5 = [r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")]
DEEPSEEK_CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]


def split(pattern):
    return pre_tokenizers.Sequence([split_alone(pattern), plain()])


def split_alone(pattern):
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated")


def plain():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def byte_level():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


# name: pre-tokenizer, ignore_merges
PRE = {
    "gpt-2": (byte_level(), False),
    "smollm": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()]), False),
    "llama-bpe": (split(LLAMA3), True),
    "qwen2": (split(QWEN2), False),
    "tekken": (split(TEKKEN), True),
    "gpt-4o": (split(O200K), False),
    "seed-coder": (split(SEED_CODER), False),
    "viking": (pre_tokenizers.Sequence([split_alone(VIKING), pre_tokenizers.Digits(individual_digits=True), plain()]), False),
    "deepseek-coder": (
        pre_tokenizers.Sequence([*map(split_alone, DEEPSEEK_CODER), pre_tokenizers.Digits(individual_digits=True), plain()]),
        False,
    ),
    "deepseek-llm": (
        pre_tokenizers.Sequence([*map(split_alone, DEEPSEEK_LLM), pre_tokenizers.Digits(individual_digits=True), plain()]),
        False,
    ),
    "deepseek-v3": (pre_tokenizers.Sequence([*map(split_alone, DEEPSEEK_V3), plain()]), False),
    "kimi-k2": (split(r"[\p{Han}]+|" + KIMI), False),
    "bailingmoe": (split(BAILING), False),
    "exaone-moe": (split(EXAONE_MOE), False),
    "minicpm5": (pre_tokenizers.Sequence([*map(split_alone, MINICPM5), plain()]), True),
}
# Characters are composed by Python's tables (3.11: Unicode 14), since the library's are older than some marks.
COMPOSES = ["qwen2"]


def build(reader, pre, ignore_merges):
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in reader.fields["tokenizer.ggml.merges"].contents()]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre
    return tokenizer


WORDS = """the of and to in a is that for it as was with be by on not he his but at are this have from or had an they
which one you were all her she there would their we him been has when who will no more if out so up said what its about
than into them can only other time new some could these two may first then do any like my now over such our man me even
most made after also did many off before must well back through years where much your way down should because long each
just state those people too mister little good world make very year still see own work men day get here between both life
being under three never know same last another while us might great go come since against right came take used himself few
house use place during high without again home around small however found mrs part school thought went say general once
upon war left number course until antidisestablishmentarianism supercalifragilistic floccinaucinihilipilification""".split()

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "It's what we're here for; they've said I'm sure she'll say he'd go, can't won't don't.",
    "IT'S WHAT WE'RE HERE FOR; THEY'VE SAID I'M SURE SHE'LL SAY HE'D GO, CAN'T.",
    "It\u2019s what we\u2019re here for; they\u2019ve said.",
    "'s't're've'm'll'd 'S'T'RE'VE'M'LL'D 'sS 'Ll 'lL 'Re 'vE",
    "x'\u017f y'\u017fs 'L\u017f \u017f's 'K\u212a",
    "L'été à la plage, où l'on s'amuse — déjà vu, naïve façade, cœur, Ægir, ÿ.",
    "Füße, Straße, ÄÖÜ äöü ẞ; Übergrößenträger",
    "¿Qué pasó? ¡Mañana será otro día! España, niño, corazón",
    "Pchnąć w tę łódź jeża lub ośm skrzyń fig. Zażółć gęślą jaźń",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Ёлки-палки!",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Ἀρχιμήδης ᾧ",
    "敏捷的棕色狐狸跳過了懶惰的狗。你好，世界！１２３４５ 三百二十一",
    "いろはにほへと ちりぬるを。カタカナ・ひらがな・漢字、ﾊﾝｶｸ。",
    "다람쥐 헌 쳇바퀴에 타고파. 안녕하세요, 세계! ㄱㄴㄷ",
    "نص حكيم له سر قاطع وذو شأن عظيم. ١٢٣٤٥ ۱۲۳ ،؛؟",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण। १२३ क्षत्रिय",
    "தமிழ் மொழி உலகின் தொன்மையான மொழிகளில் ஒன்று ௧௨௩",
    "ไทยเป็นภาษาที่ไม่มีวรรค ๑๒๓ น้ำใจ",
    "ខ្មែរ ភាសា ១២៣ ລາວ ༡༢༣ བོད་ཡིག",
    "የአማርኛ ፊደል ፩፪፫ ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ ᚠᚢᚦᚨᚱᚲ",
    "𝒜𝓁𝓅𝒽𝒶 𝟘𝟙𝟚 𝔘𝔫𝔦 𠀀𠀁𠜎 𐍈𐌰 𒀀𒀁 𓀀𓂀",
    "👨‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈 🇩🇪🇫🇷 ❤️‍🔥 👍🏿 1️⃣ #️⃣ ☺︎ ☺️ 🫠🫡",
    "e\u0301 a\u0300\u0323 n\u0303 o\u0308\u0304 Z\u0351\u036b\u0343a\u0363l\u0348g\u0321o\u031b A\u030a \u0301alone",
    "ﬁ ﬂ ﬃ ﬅ ½ ¾ ⅓ Ⅷ ① ② ㊿ ² ³ ₁₂ Ǆ ǅ ǆ ª º ʰʲ",
    "1 12 123 1234 12345 123456 1234567 3.14159 1e-10 0xDEADBEEF 1,000,000 -42 +7 50% $9.99 €5 2026-11-21T10:42:00Z",
    "v1.2.3-rc.4+build.567 192.168.0.1 ::1 a1b2c3 4th 2nd abc123def 12ab",
    " 1  2   3 \t4\n5\r\n6 ",
    "Hello,   world !  ...  --  ??!?  :-) ;) <3 </br> ((())) [[x]] {{y}} `z` ~a^b|c\\d/e",
    "leading", " leading", "  leading", "   leading", "trailing ", "trailing  ", "trailing \n", "\n\n\nlines\n\n\n",
    "a\tb\t\tc\t\t\td", "a\r\nb\r\n\r\nc\r\rd", "\ttab first", " \t mixed \t ", "\x0b\x0cvt ff\x0b", "a \n b \n\n c",
    "\u00a0nbsp\u00a0\u00a0two \u2003em\u2003\u2003 \u3000ideographic\u3000 \u200bzero\u200b \ufeffbom \u2028ls\u2029ps \u0085nel",
    "\u180emvs \u180e\u180e x\u180ey \u180e1", "\u1680ogham \u202fnarrow\u205fmath",
    "\x00nul\x00\x01\x02\x03\x1b[31mred\x1b[0m\x7f\x80\x9f\xad", "\x1c\x1d\x1e\x1f separators \x1c \x1f",
    "def f(x):\n    if x > 0:\n        return x ** 2\n    else:\n        return -x  # comment\n\n\nclass A(B):\n\tpass\n",
    "#include <stdio.h>\nint main(void) {\n\tprintf(\"%d\\n\", 0x1F & ~3);\n\treturn 0;\n}\n",
    "const f = async (a, b) => { await g(`${a}:${b}`); /* c */ return a?.b ?? [...c]; };",
    "SELECT u.id, COUNT(*) FROM users AS u WHERE u.name LIKE '%o''b%' GROUP BY 1 HAVING COUNT(*) >= 10;",
    "<html lang=\"en\"><body class='x y'><!-- note --><p>T&eacute;xt &amp; more</p></body></html>",
    "{\"key\": [1, 2.5, -3e4, null, true], \"nested\": {\"a\\u00e9\": \"\\n\"}}",
    "https://user:pw@example.com:8080/a/b%20c?q=1&r=two#frag mailto:a.b+c@example.org ftp://x/ //y",
    "/usr/local/lib/python3.11/site-packages C:\\Users\\name\\file.txt ~/.config ../..",
    "$x^2 + y_1 = \\frac{a}{b}$ ∑∫√∞≈≠≤≥ αβγ ∀x∈ℝ ∃y: x⊕y → ⟨z⟩",
    "camelCase PascalCase snake_case kebab-case SCREAMING_SNAKE HTTPServer iPhone eBay McDonald XMLHttpRequest",
    "<|im_start|>user\nIgnore<|im_end|>\n<|endoftext|> <|im_end <|im_start|>", "<s>[INST] x [/INST]</s>", "<repo_name><empty_output>",
    "ABC ABCdef abcDEF ÀÉî ÉTÉ été ДОМ дом Дом ǅabc ʰabc 中Abc abc中 a中A 中a中", "ΑΒΓ/αβγ//\n/x/\n", "!/\n?/\r\n./ /",
    "café cafe\u0301 CAFÉ CAFE\u0301 A\u0301\u0301B \u0301\u0301 x\u0301\u0301y", "",
]

# Ends of the ranges in which a Unicode 14 library differs from the one behind `tokenizers`.
YOUNG = """1C89 1C8A A7CB A7CD A7DA A7DC 105C0 105F3 10D4A 10D50 10D65 10D6F 10D70 10D85 10EC2 1123F 11380 113B5 113D3 11BC0 11BE0
11F04 11F33 1342F 13441 13460 143FA 16100 1611D 16D40 16D6C 18CFF 1B132 1B155 1DF25 1E030 1E06D 1E4D0 1E4EB 1E5D0 1E5F0 2B739
2EBF0 2EE5D 31350 323AF 10D40 10D49 116D0 116E3 11BF0 11F50 16130 16D70 1CCF0 1D2C0 1E4F0 1E5FA 11DE0 11DE9 16FF4 16FF6
897 CF3 ECE 10D69 10EFC 11241 113B8 113E2 11F00 11F3A 11F5A 13440 13455 1611E 1E08F 1E4EC 1E5EE 323B0 0378 E0001 F0000
1B4E 1B7F 10D6E 113D5 113D7 11B09 11BE1 11F43 16D6F 1E5FF 2427 2FFC 2FFF 31E5 31EF 10D8F 1CC00 1CCEF 1CEB3 1F6DC 1F776 1F77F 1F7D9
1F8BB 1F8C1 1FA77 1FA89 1FABF 1FADF 1FBEF""".split()

BLOCKS = [(0x20, 0x7E), (0x20, 0x7E), (0x0, 0xFF), (0xA0, 0x24F), (0x250, 0x36F), (0x370, 0x5FF), (0x600, 0x8FF),
          (0x900, 0xDFF), (0xE00, 0x11FF), (0x1200, 0x1CFF), (0x1D00, 0x20CF), (0x20D0, 0x2BFF), (0x2C00, 0x30FF),
          (0x3100, 0x4DBF), (0x4E00, 0x9FFF), (0xA000, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x1CFFF), (0x1D000, 0x1FFFF),
          (0x20000, 0x3FFFF), (0xE0000, 0x10FFFF)]
SPACES = [" ", " ", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\u00a0", "\u3000", "\u2028", "\x0b", "\x85", "\u180e"]


def character(rng):
    while True:
        code = rng.randint(*rng.choice(BLOCKS))
        if not 0xD800 <= code <= 0xDFFF:
            return chr(code)


def random_text(rng, kind):
    if kind == 0:  # words with spaces, capitals and punctuation
        words = [rng.choice(WORDS) for _ in range(rng.randint(1, 14))]
        words = [rng.choice([w, w, w, w.title(), w.upper(), w + "'s", w + rng.choice(",.;:!?-"), f'"{w}"']) for w in words]
        return "".join(w + rng.choice(SPACES) for w in words)
    if kind == 1:  # any characters of one or two blocks
        return "".join(character(rng) for _ in range(rng.randint(1, 24)))
    if kind == 2:  # numbers
        return "".join(str(rng.randint(0, 10 ** rng.randint(1, 12))) + rng.choice(["", " ", "  ", ".", ",", "x", "\n", "%"])
                       for _ in range(rng.randint(1, 8)))
    if kind == 3:  # ASCII, every one alike
        return "".join(chr(rng.randint(0, 127)) for _ in range(rng.randint(1, 48)))
    if kind == 4:  # whitespace
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 10))) + rng.choice(["", "x", "1", "."])
    if kind == 5:  # pieces of the sentences, cut anywhere
        text = rng.choice(SENTENCES) + rng.choice(SENTENCES)
        a, b = sorted(rng.randint(0, len(text)) for _ in range(2))
        return text[a:b]
    if kind == 6:  # contractions and quotes
        return "".join(rng.choice(["'", "'", "s", "S", "ll", "LL", "re", "Ve", "d", "T", "m", " ", "x", "\u017f", "1", "\n"])
                       for _ in range(rng.randint(1, 24)))
    if kind == 7:  # runs
        return "".join(rng.choice(["a", "A", " ", "\n", "=", "-", "0", "é", "中", "😀", "\u0301", "ab", "\r\n", "/"]) * rng.randint(1, 40)
                       for _ in range(rng.randint(1, 4)))
    return "".join(rng.choice([rng.choice(WORDS), character(rng), rng.choice(SPACES), str(rng.randint(0, 999))])
                   for _ in range(rng.randint(1, 16)))


def texts():
    rng = random.Random(20261121)
    out = list(SENTENCES)
    for code in YOUNG:
        c = chr(int(code, 16))
        out.append(f"a{c}b {c}{c} 1{c}2 .{c}!  {c}'s A{c}")
    out += [w * n for w, n in (("a", 500), (" ", 500), ("\n", 300), ("9", 300), ("😀", 100), ("'s", 200), ("中文", 100),
                               ("ab ", 150), ("=-", 200), ("\t", 200), ("A", 300), ("\u0301", 100), ("\r\n", 150))]
    seen = set(out)
    kind = 0
    while len(out) < 1400:
        text = random_text(rng, kind % 9)
        kind += 1
        if text not in seen:
            seen.add(text)
            out.append(text)
    return out


def main(path):
    reader = GGUFReader(path)
    builds = [build(reader, *PRE[name]) for name in PRE]
    lines = []
    for text in texts():
        ids, last = [], None
        for name, tokenizer in zip(PRE, builds):
            composed = unicodedata.normalize("NFC", text) if name in COMPOSES else text
            now = tokenizer.encode(composed, add_special_tokens=False).ids
            ids.append(None if now == last else now)
            last = now
        lines.append(json.dumps([text, ids], separators=(",", ":")))
    head = {"made by": f"make_tokenizer_vectors.py, tokenizers {tokenizers.__version__}", "pre": list(PRE)}
    body = json.dumps(head)[:-1] + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n"
    pathlib.Path(__file__).with_name("tokenizer.json").write_text(body)
    print(f"{len(lines)} texts, {len(body)} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
