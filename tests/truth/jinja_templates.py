"""Random templates and contexts from a grammar, for a comparison with jinja2. A seed gives the same ones everywhere. Most letters of words are
Cyrillic where the template writes them and Armenian where they are said to it, so that the output shows which came from where."""
import itertools
import random
import re

WORDS = ["a", "b", "Hello", "hello world", "", " x ", "<|im_end|>", "été", "ΣΑΣ", "1", "3.5", "-2", "0x1F", "A,B,c", "line\nbreak", "tab\t\"q\"'",
         "ß", "日本語", "\\", "%s", "{}", "longer text with several words in it, and a comma", "end\n", "\n\n", "Mixed Case", "🙂"]
# Those that filters and methods are told to look for stay as they are.
MOVED = [letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter not in "aelr"]
# And numbers stay numbers.
IS_NUMBER = re.compile(r"[-.0-9xF]+")


def alphabet(small, capital, others):
    return str.maketrans({**{letter: chr(small + ord(letter) - ord("a")) for letter in MOVED},
                          **{letter.upper(): chr(capital + ord(letter) - ord("a")) for letter in MOVED}, **dict(zip("é日本語🙂", others))})


OF_TEMPLATE, OF_DATA = alphabet(0x430, 0x410, "ёйцшщ"), alphabet(0x561, 0x531, "օ한국어🙃")
WRITTEN = {chr(code) for code in range(0x400, 0x500)}
SAID = {chr(code) for code in range(0x531, 0x588)} | set("한국어🙃")


def written(word):
    return word if IS_NUMBER.fullmatch(word) else word.translate(OF_TEMPLATE)


def said(word):
    return word if IS_NUMBER.fullmatch(word) else word.translate(OF_DATA)


# A name that is set has none from outside: whether a block sees the outer one before it is set, jinja2 decides when it compiles.
SET_NAMES = ["q", "r", "t"]
NAMES = ["q", "r", "a", "b", "c", "n", "s", "xs", "ys", "d", "msgs", "flag", "nothing", "undefined_one", "f"]
KEYS = ["role", "content", "k", "items", "name", "n", "0"]
TEXT_FILTERS = ["upper", "lower", "trim", "capitalize", "title", "string", "length", "tojson", "e", "int", "float", "wordcount", "list", "first",
                "last", "reverse", "urlencode", "count", "safe", "abs", "round", "sort", "unique|list", "sum", "max", "min", "indent", "center(12)",
                "join", "join('-')", "default('d')", "default('d', true)", "d", "replace('a', 'b')", "replace('', '-')", "replace('l', 'L', 1)",
                "truncate(8)", "truncate(8, true)", "truncate(5, false, '')", "indent(2, true)", "indent('> ', blank=true)", "tojson(indent=2)",
                "tojson(ensure_ascii=true)", "tojson(sort_keys=true)", "tojson(separators=(',', ':'))", "round(1)", "round(1, 'floor')",
                "round(0, 'ceil')", "int(7)", "int(0, 16)", "float(1.5)", "batch(2)|list", "batch(3, 'x')|list", "slice(2)|list",
                "map('upper')|list", "map('length')|list", "map(attribute='role')|list", "map(attribute='n', default=0)|list", "select|list",
                "reject|list", "select('string')|list", "reject('none')|list", "select('gt', 1)|list", "selectattr('role')|list",
                "selectattr('role', 'equalto', 'user')|list", "rejectattr('content')|list", "selectattr('role', 'defined')|list",
                "dictsort", "dictsort(true, 'value')", "dictsort(reverse=true)", "items|list", "groupby('role')", "groupby('role')|list",
                "sort(attribute='role')", "sort(reverse=true)", "map('tojson')|join(';')", "attr('role')", "filesizeformat", "trim('a')",
                "format(1)", "format('x', 2)", "map('int')|sum", "max(attribute='n')", "join(', ', attribute='role')", "forceescape",
                "sum(attribute='n')", "unique(attribute='role')|list", "first|upper", "trim|length"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "callable", "true",
         "false", "odd", "even", "lower", "upper", "divisibleby 2", "divisibleby(3)", "eq 1", "equalto('a')", "ne 'a'", "gt 1", "in [1, 'a']",
         "in xs", "sameas none", "sameas true", "lt 3", "ge(2)", "== 2"]
METHODS = ["upper()", "lower()", "strip()", "lstrip()", "rstrip('x')", "title()", "capitalize()", "split()", "split(',')", "split(' ', 1)", "rsplit(' ', 1)",
           "splitlines()", "splitlines(true)", "startswith('a')", "endswith('b')", "startswith(('a', 'h'))", "find('l')", "rfind('l')", "count('l')",
           "replace('l', 'r')", "replace('l', 'r', 1)", "index('l')", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()",
           "join(xs)", "format(1, 2)", "format(a, k=b)", "zfill(6)", "center(9, '*')", "ljust(5)", "rjust(5)", "partition(' ')", "rpartition(' ')",
           "removeprefix('a')", "removesuffix('b')", "swapcase()", "istitle()", "isnumeric()", "items()", "keys()", "values()", "get('role')",
           "get('nope')", "get('nope', 1)", "items()|list", "keys()|list", "append(1)", "copy()", "index(1)", "pop()", "update({})", "nosuch()",
           "isascii()", "isdecimal()", "find('o', 2)", "count('o', 0, -1)", "casefold()", "startswith('e', 1)"]


# What suits a name's type, so that more than errors come out.
SUITED = {"s": ["upper", "lower", "trim", "title", "capitalize", "length", "tojson", "list", "first", "last", "reverse", "replace('l', 'L', 1)", "truncate(8)",
                "indent(2, true)", "center(12)", "wordcount", "int", "float", "urlencode", "e", "default('d', true)", "unique|list|join"],
          "n": ["abs", "string", "round(1)", "float", "tojson", "default(1)", "filesizeformat", "int", "round(0, 'floor')"],
          "ys": ["join(', ')", "sort", "first", "last|upper", "length", "map('upper')|join('-')", "select|list", "reverse|list", "unique|list", "tojson", "batch(2)|list",
                 "map('length')|list", "reject('equalto', 'a')|list", "min", "max", "slice(2)|list", "list", "sort(reverse=true)|first", "map('trim')|list"],
          "msgs": ["map(attribute='role')|join(',')", "selectattr('role', 'equalto', 'user')|list", "rejectattr('role', 'in', ['user'])|map(attribute='content')|list",
                   "length", "first", "last", "tojson", "tojson(indent=2)", "groupby('role')", "sort(attribute='role')", "map(attribute='n', default=0)|sum", "list|string",
                   "selectattr('n', 'defined')|list|length", "max(attribute='content')", "reverse|list", "sum(attribute='n', start=1)"],
          "d": ["tojson", "tojson(indent=4, sort_keys=true)", "items|list", "list", "length", "dictsort", "string", "first", "dictsort(reverse=true)|list"]}


def each_filter_and_method():
    """Templates that send data, the template's words, and both mixed, through every filter and method."""
    texts = ["s", "'Hёl, шo'", "(s ~ ' Wоlf,a ' ~ t)", "('чa\\n' ~ s)", "(s|replace('l', 'ц'))"]
    lists = ["ys", "[s, 'шш', t]", "(s ~ 'щ')|list", "msgs", "[{'role': 'я', 'content': s}, {'role': t, 'content': 'ю'}]", "s.split('l')"]
    others = ["d", "{'ж': s, t: 'й'}", "n", "none", "true"]
    filters = sorted({*TEXT_FILTERS, *itertools.chain(*SUITED.values())})
    for value in [*texts, *lists, *others]:
        for name in filters:
            yield "{{ " + value + "|" + name + " }}"
            yield "{% filter " + name.split("|")[0] + " %}{{ " + value + " }}б{% endfilter %}"
        for name in METHODS:
            yield "{{ (" + value + ")." + name + " }}"
    for text in texts:
        for form in ("%s", "%r", "%9s", "%-9s|", "%.3s", "%s%%", "д%sд"):
            yield "{{ '" + form + "' % " + text + " }}{{ '" + form + "'|format(" + text + ") }}"
        for form in ("{}", "{!r}", "{:>9}", "{:ы<9}", "{0}д{0}", "{0:.3}"):
            yield "{{ '" + form + "'.format(" + text + ") }}"
        for cut in ("[1:]", "[:-1]", "[::-1]", "[::2]", "[-3:]", "[0]"):
            yield "{{ " + text + cut + " }}"
        yield "{{ " + text + " * 3 }}{{ (s + " + text + ").partition('l') }}{{ s.join(" + text + ") }}{{ s.replace('a', " + text + ") }}"
        yield "{{ s.center(30, 'ф') }}{{ s.strip(" + text + ") }}{{ s|trim(" + text + ") }}{{ s.split(" + text + ") }}{{ 'ф'|replace('ф', " + text + ") }}"
        yield "{% macro m(x, y='э') %}{{ x }}ъ{{ y }}{{ caller() if caller }}{% endmacro %}{% set q = m(" + text + ") %}{{ q|upper }}{% call m(1, q) %}{{ s }}{% endcall %}"


LOOPS = ["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "depth", "cycle('a', 'b', 'c')", "changed(x)"]


def each_loop():
    """Templates that ask a loop each of its questions, over what is there already and what is made one after the other."""
    sources = ["xs", "ys", "s", "range(4)", "d", "d.items()", "msgs", "nothing", "xs|select('number')", "xs|reject('string')", "ys|map('upper')", "ys|unique", "ys|batch(2)",
               "xs|slice(3)", "msgs|selectattr('role', 'equalto', 'user')", "msgs|rejectattr('n', 'defined')", "msgs|map(attribute='role')", "ys|reverse", "d|items",
               "xs|select('odd')|map('string')", "ys[::-1]", "(1, 2, 3)"]
    for source, condition in itertools.product(sources, ["", " if x", " if x is string", " if not x is number", " if x != 2"]):
        for question in LOOPS:
            yield f"{{% for x in {source}{condition} %}}[{{{{ loop.{question} }}}}{{{{ x }}}}]{{% else %}}none{{% endfor %}}"
        yield (f"{{% for x in {source}{condition} %}}{{{{ loop.last }}}}{{{{ x }}}}{{{{ loop.length }}}}{{{{ loop.nextitem }}}}{{% if loop.index == 2 %}}"
               "{% break %}{% endif %},{% endfor %}")


class Grammar:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.depth = 0

    def pick(self, choices):
        return self.random.choice(choices)

    def chance(self, share):
        return self.random.random() < share

    def string(self):
        text = written(self.pick(WORDS))
        quote = self.pick("'\"")
        return quote + text.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("\n", self.pick(["\\n", "\n"])) + quote

    def literal(self):
        kind = self.random.randrange(9)
        if kind < 3:
            return self.string()
        if kind < 5:
            return str(self.random.randrange(-3, 12))
        if kind == 5:
            return self.pick(["1.5", "0.1", "2.0", "1e3", "-0.25", "100000.0", "1e20", "1_000"])
        if kind == 6:
            return self.pick(["true", "false", "none", "True", "None"])
        if kind == 7:
            return "[" + ", ".join(self.expression() for _ in range(self.random.randrange(4))) + "]"
        return self.pick(["{}", "()", "(1,)", "{'role': 'user', 'n': 1}", "{'k': a, 1: b}", "(a, 'x')"])

    def primary(self):
        kind = self.random.randrange(12)
        if kind < 5:
            return self.pick(NAMES)
        if kind < 8 or self.depth > 4:
            return self.literal()
        if kind == 8:
            return f"({self.expression()})"
        if kind == 9:
            return self.pick(["msgs[0]", "msgs[-1]", "d.role", "d['k']", "xs[0]", "xs[1:]", "s[1:3]", "s[::-1]", "xs[-2:]", "xs[::2]", "msgs[9]",
                              "d.items", "d.nope", "s[0]", "s[-1]", "ys[:2]", "range(3)", "(range(1, 4)|list)", "n ** 2", "(range(5, 0, -2)|list)", "msgs[0].role",
                              "msgs[0]['content']", "d.get('k')", "xs.0", "nothing.x", "undefined_one.x", "undefined_one[0]", "range(4)[1:]",
                              "dict(a=1)", "namespace(q=1).q", "loop.index", "f[1]", "s[a:]", "xs[5:1:-1]"])
        if kind == 10:
            return f"({self.primary()}).{self.pick(METHODS)}"
        return f"{self.primary()}[{self.expression()}]" if self.chance(0.4) else f"{self.primary()}.{self.pick(KEYS[:6])}"

    def suited(self):
        if self.chance(0.4):
            return f"{self.pick(['s', 'ys[0]', 'msgs[0].content', self.string()])}.{self.pick(METHODS)}"
        name = self.pick(list(SUITED))
        return f"{name}|{self.pick(SUITED[name])}"

    def spoken(self):
        """A text of data, or of both, through a filter or a method: it is seldom an error."""
        name = self.pick(["s", "a", "ys[0]", "msgs[0].content", f"(s ~ {self.string()})", f"({self.string()} ~ s)", f"([s, {self.string()}]|join({self.string()}))",
                          f"({self.string()}.join(ys))", f"(s|replace('e', {self.string()}))", f"(ys|join({self.string()}))"])
        return f"{name}|{self.pick(SUITED['s'])}" if self.chance(0.5) else f"{name}.{self.pick(METHODS)}"

    def postfix(self):
        if self.chance(0.5):
            return self.suited() if self.chance(0.6) else self.pick(NAMES + ["s", "n"])
        text = self.primary()
        while self.chance(0.3):
            text = f"({text})|{self.pick(TEXT_FILTERS)}" if self.chance(0.3) else f"{text}|{self.pick(TEXT_FILTERS)}"
        if self.chance(0.12):
            text = f"{text} is {self.pick(['', '', 'not '])}{self.pick(TESTS)}"
        return text

    def expression(self):
        self.depth += 1
        try:
            if self.depth > 5 or self.chance(0.45):
                return self.postfix()
            kind = self.random.randrange(10)
            if kind < 4:
                return f"{self.postfix()} {self.pick(['+', '-', '*', '/', '//', '%', '~', '~', '+'])} {self.postfix()}"
            if kind < 6:
                return f"{self.postfix()} {self.pick(['==', '!=', '<', '>', '<=', '>=', 'in', 'not in'])} {self.postfix()}"
            if kind == 6:
                return f"{self.postfix()} {self.pick(['and', 'or'])} {self.expression()}"
            if kind == 7:
                return f"not {self.postfix()}"
            if kind == 8:
                other = f" else {self.expression()}" if self.chance(0.7) else ""
                return f"{self.postfix()} if {self.postfix()}{other}"
            return f"{self.pick(['-', '+', ''])}{self.postfix()} {self.pick(['<', '=='])} {self.postfix()} {self.pick(['<=', '!='])} {self.postfix()}"
        finally:
            self.depth -= 1

    def tag(self, text):
        return "{%" + self.pick(["", "", "", "-", "+"]) + " " + text + " " + self.pick(["", "", "", "-", "+"]) + "%}"

    def block(self, size):
        return "".join(self.statement(size - 1) for _ in range(self.random.randrange(1, 4)))

    def statement(self, size):
        kind = self.random.randrange(20)
        if size <= 0 or kind < 4:
            return written(self.pick(["text", " ", "\n", "  \n", "a {b} c\n", "<|im_start|>", "\n\n   ", "x\r\ny", "%} }}", "{ {"]))
        if kind < 9:
            return "{{" + self.pick(["", "", "-"]) + " " + self.expression() + " " + self.pick(["", "", "-"]) + "}}"
        if kind == 9:
            other = self.tag("else") + self.block(size) if self.chance(0.5) else ""
            middle = self.tag(f"elif {self.expression()}") + self.block(size) if self.chance(0.3) else ""
            return self.tag(f"if {self.expression()}") + self.block(size) + middle + other + self.tag("endif")
        if kind < 13:
            return self.loop(size)
        if kind == 13:
            return self.tag(f"set {self.pick(SET_NAMES)} = {self.expression()}")
        if kind == 14:
            return self.tag(f"set {self.pick(SET_NAMES)}{self.pick(['', '', ' | upper', ' | trim | length'])}") + self.block(size) + self.tag("endset")
        if kind == 15:
            name = self.pick(["m", "w"])
            parameters = self.pick(["", "a", "a, b=1", "x='d', y=none", "a, caller=none"])
            extra = self.pick(["", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ caller and caller() }}"])
            call = self.pick([f"{name}()", f"{name}(1)", f"{name}(a, 2)", f"{name}(b=s)", f"{name}(1, 2, 3)", f"{name}(*xs)", f"{name}(**d)", f"{name}(z=1)"])
            use = "{{ " + call + " }}"
            if self.chance(0.3):
                use = self.tag(f"call {call}") + self.block(size) + self.tag("endcall")
            return self.tag(f"macro {name}({parameters})") + extra + self.block(size) + self.tag("endmacro") + use
        if kind == 16:
            return self.tag(f"filter {self.pick(['upper', 'trim', 'indent', 'length', 'replace(1, 2)'])}") + self.block(size) + self.tag("endfilter")
        if kind == 17:
            return self.tag(f"with {self.pick(['a', 'q'])} = {self.expression()}") + self.block(size) + self.tag("endwith")
        if kind == 18:
            space = self.tag("set ns = namespace(v=0, w='')")
            change = self.tag(f"set ns.v = ns.v + {self.pick(['1', 'n', 'loop.index'])}")
            return space + self.tag(f"for i in {self.pick(['xs', 'msgs', 's', 'range(3)'])}") + change + self.tag("endfor") + "{{ ns.v }}"
        return self.pick(["{# a comment #}", "{#- c -#}\n", "{% raw %}{{ x }}{% endraw %}", self.tag("generation") + self.block(size) + self.tag("endgeneration"),
                          "{{ raise_exception('no ' ~ s) }}", "{%- raw -%} {% if %} {%- endraw -%}\n", "  {# c #}\n"])

    def loop(self, size):
        target, over = self.pick([("x", "xs"), ("x", "ys"), ("m", "msgs"), ("x", "s"), ("k, v", "d.items()"), ("k", "d"), ("x", "range(3)"), ("x", "undefined_one"),
                                  ("x", "nothing"), ("k, v", "d|dictsort"), ("x", "xs|select('number')"), ("x", self.expression()), ("a, b", "[(1, 2), (3, 4)]")])
        condition = f" if {self.expression()}" if self.chance(0.2) else ""
        recursive = " recursive" if self.chance(0.1) else ""
        inside = ""
        if self.chance(0.5):
            inside = "{{ " + self.pick(["loop.index", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.index0", "loop.previtem", "loop.nextitem",
                                        "loop.cycle('a', 'b')", "loop.changed(x)", "loop.depth", target.split(",")[0], "loop.revindex0", "loop.nope"]) + " }}"
        if self.chance(0.15):
            inside += self.tag(f"if {self.expression()}") + self.tag(self.pick(["break", "continue"])) + self.tag("endif")
        if recursive and self.chance(0.5):
            inside += self.tag("if loop.depth < 3") + "({{ loop([1]) }})" + self.tag("endif")
        other = self.tag("else") + "none" if self.chance(0.2) else ""
        return self.tag(f"for {target} in {over}{condition}{recursive}") + inside + self.block(size) + other + self.tag("endfor")

    def template(self):
        block = self.block(self.pick([1, 2, 3, 4]))
        return block + "{{ " + self.spoken() + " }}" if self.chance(0.8) else block

    def value(self, depth=0):
        kind = self.random.randrange(10 if depth < 2 else 7)
        if kind < 3:
            return said(self.pick(WORDS))
        if kind == 3:
            return self.random.randrange(-5, 100)
        if kind == 4:
            return self.pick([0.5, 1.0, -2.25, 1e16, 1e-5, 123456.789, 0.1])
        if kind == 5:
            return self.pick([True, False])
        if kind == 6:
            return None
        if kind < 9:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        return {self.pick(KEYS): self.value(depth + 1) for _ in range(self.random.randrange(4))}

    def context(self):
        messages = [{"role": self.pick(["user", "assistant", "system", "tool"]), "content": said(self.pick(WORDS)), **({"n": self.random.randrange(5)} if self.chance(0.5) else {})}
                    for _ in range(self.random.randrange(4))]
        fixed = {"s": said(self.pick(WORDS)), "n": self.random.randrange(-2, 6), "xs": [self.value(1) for _ in range(self.random.randrange(5))] if self.chance(0.5) else [3, 1, 2],
                 "ys": [said(self.pick(WORDS)) for _ in range(self.random.randrange(4))], "msgs": messages, "flag": self.chance(0.5), "nothing": None,
                 "d": {self.pick(KEYS): self.value(1) for _ in range(self.random.randrange(4))}, "f": self.pick([1.5, "fgh", [7, 8], {"1": 2}])}
        fixed["t"] = said(self.pick(WORDS))
        return {**fixed, "a": self.value(), "b": self.value(), "c": self.value()}
