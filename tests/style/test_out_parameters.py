"""On failure an out parameter is not written, or is NULL (docs/STYLE.md, Errors), so that nobody releases what a function that failed has released.

Each function of the tree is walked on all its paths, with what is known of its pointers: *p of a parameter T **p, and local pointers. A call
that is given p or &local has two outcomes: it fails, and the pointer is as before, or it does not, and the pointer is written. Found is a path
on which

    - a function returns a failure (lh_status: not LH_OK; bool: false), and *p was written or released and not set to NULL since;
    - the same of p->field, of a parameter p, which was released, and is not where all is well;
    - a pointer is released that was released before, or that nobody has written.

Conditions are understood where they ask for a status, a bool or a pointer, and calls by the return types that the tree declares; anything else
may be true or false. Before it looks at the tree, the test looks at faults of its own (CASES)."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("common", "gateway", "kernels", "link", "worker")

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[A-Za-z_]\w*|\d[\w.]*|->|\+\+|--|<<=|>>=|<<|>>|&&|\|\||[-+*/%&|^=!<>]=|\.\.\.|[^\s\w]')
IGNORED = re.compile(r'("(?:[^"\\\n]|\\.)*")|/\*.*?\*/|//[^\n]*|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', re.S | re.M)
WORD = re.compile(r"[A-Za-z_]\w*$")
RELEASES = re.compile(r"(?:.*_)?(?:release|destroy|free|close|decref|fclose|freeaddrinfo|closedir|munmap)$")
# What these give is a failure, always.
FAILS = re.compile(r"lh_fail\w*$|.*refuse\w*$")
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "do", "else", "goto", "case", "default", "break", "continue", "_Alignof", "defined", "assert"}
# Of one statement: more are rare, and are looked at in part.
PATHS_MAX = 200
# Functions whose header gives the caller an object after a failure, too.
EXCEPT = {
    "lh_config_parse": "the complaint about an option needs the file that gave it",
    "enter_folder": "the settings refer to a member that they contradict, and --check-config goes on with them",
    "enter_slot": "the same",
    "serve": "a worker's server is forgotten when its end is told, in on_server_closed",
}

NULL, OLD, NEW, RELEASED = "NULL", "as it was", "written", "released"


class Token(str):
    """Its text; line: where it stands."""
    __slots__ = ("line",)


def tokens_of(text):
    text = IGNORED.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    found, line, at = [], 1, 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        token = Token(match[0])
        token.line = line
        found.append(token)
    return found


OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


def end_of(tokens, at):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i] in OPENING) - (tokens[i] in CLOSING)
        if depth == 0:
            return i + 1
    return len(tokens)


def split(tokens, separators):
    """The parts between separators that stand in no brackets."""
    parts, begin, at = [], 0, 0
    while at < len(tokens):
        if tokens[at] in OPENING:
            at = end_of(tokens, at)
            continue
        if tokens[at] in separators:
            parts.append(tokens[begin:at])
            begin = at + 1
        at += 1
    return parts + [tokens[begin:]]


# ---- Statements: ("expression", tokens), ("if", condition, then, otherwise), ...

def parse_block(tokens):
    statements, at = [], 0
    while at < len(tokens):
        statement, at = parse_statement(tokens, at)
        statements.append(statement)
    return ("block", statements)


def parse_statement(tokens, at):
    if at >= len(tokens):
        return ("block", []), at
    first = tokens[at]
    if first == "{":
        end = end_of(tokens, at)
        return parse_block(tokens[at + 1:end - 1]), end
    if first in ("if", "while", "for", "switch"):
        end = end_of(tokens, at + 1)
        head = tokens[at + 2:end - 1]
        body, end = parse_statement(tokens, end)
        if first != "if":
            return (str(first), head, body), end
        otherwise = ("block", [])
        if end < len(tokens) and tokens[end] == "else":
            otherwise, end = parse_statement(tokens, end + 1)
        return ("if", head, body, otherwise), end
    if first == "do":
        body, end = parse_statement(tokens, at + 1)
        close = end_of(tokens, end + 1)
        return ("do", tokens[end + 2:close - 1], body), close + 1
    if first in ("case", "default"):
        end = at
        while tokens[end] != ":" or tokens[end - 1] == "?":
            end += 1
        return ("case", first == "default"), end + 1
    if WORD.match(first) and tokens[at + 1:at + 2] == [":"]:
        return ("label", str(first)), at + 2
    if WORD.match(first) and first not in KEYWORDS and tokens[at + 1:at + 2] == ["("]:
        end = end_of(tokens, at + 1)
        if end < len(tokens) and (tokens[end] == "{" or WORD.match(tokens[end])):
            body, end = parse_statement(tokens, end)  # a macro that loops
            return ("while", [], body), end
    end = at
    while end < len(tokens) and tokens[end] != ";":
        end = end_of(tokens, end) if tokens[end] in OPENING else end + 1
    body = tokens[at:end]
    if first in ("return", "goto", "break", "continue"):
        return (str(first), body[1:], first.line), end + 1
    return ("expression", body), end + 1


# ---- Functions of a file.

class Function:
    def __init__(self, name, returns, parameters, body):
        self.name, self.returns, self.parameters, self.body = name, returns, parameters, body


def kind_of(returns):
    words = [word for word in returns if word not in ("static", "inline", "extern", "const")]
    if "*" in words:
        return "pointer"
    return {"lh_status": "status", "int": "status", "bool": "bool", "void": "void"}.get(words[0] if words else "", "other")


def functions_of(tokens):
    """Of definitions the body, of declarations None."""
    at = begin = 0
    while at < len(tokens):
        if tokens[at] == "(" and at > begin and WORD.match(tokens[at - 1]):
            end = end_of(tokens, at)
            name, returns = tokens[at - 1], tokens[begin:at - 1]
            behind = end
            while tokens[behind:behind + 1] == ["__attribute__"]:
                behind = end_of(tokens, behind + 1)
            is_defined = tokens[behind:behind + 1] == ["{"]
            if returns and "=" not in returns and "typedef" not in returns and (is_defined or tokens[behind:behind + 1] == [";"]):
                close = end_of(tokens, behind) if is_defined else behind + 1
                yield Function(name, returns, split(tokens[at + 1:end - 1], ","), tokens[behind + 1:close - 1] if is_defined else None)
                at = begin = close
                continue
            at = end
        elif tokens[at] in OPENING:
            at = end_of(tokens, at)
            if tokens[at - 1] == "}" and tokens[at:at + 1] != [";"] and tokens[at:at + 1] != ["="] and not (at < len(tokens) and WORD.match(tokens[at])):
                begin = at
        else:
            at += 1
            if tokens[at - 1] == ";":
                begin = at


# Of char **, these are lists of words.
LISTS = {"argv", "words"}


def is_out(parameter):
    """T **p, of which *p is an object that somebody has to release. What is const is lent."""
    return len(parameter) > 3 and parameter[-3:-1] == ["*", "*"] and parameter[0] != "const" and parameter[-1] not in LISTS


class Tree:
    """What is known of the functions that others call. kinds: name -> of what kind it returns. updated: name -> the parameters T **p whose *p it
    reads before it writes it: *p is the caller's before and after."""

    def __init__(self, texts):
        self.functions = [function for text in texts for function in functions_of(tokens_of(text))]
        self.kinds = {"malloc": "pointer", "calloc": "pointer", "realloc": "pointer", "strdup": "pointer",
                      **{str(function.name): kind_of(function.returns) for function in self.functions}}
        self.updated = {}
        for _ in range(3):  # as deep as they are handed on
            self.updated = {str(function.name): self.updated_by(function) for function in self.functions if function.body}

    def updated_by(self, function):
        return {str(parameter[-1]) for parameter in function.parameters if is_out(parameter) and self.is_updated(function, str(parameter[-1]))}

    def is_updated(self, function, name):
        """By where it is named first."""
        body = function.body
        at = next((i for i in range(len(body)) if body[i] == name and "sizeof" not in body[max(0, i - 3):i]), None)
        if at is None:
            return False
        if body[at - 1] == "*":
            return body[at + 1] != "="
        return self.is_handed_to_update(function, at)

    def is_handed_to_update(self, function, at):
        body, begin, depth = function.body, at, 0
        while begin and depth >= 0:
            begin -= 1
            depth += (body[begin] in CLOSING) - (body[begin] in OPENING)
        callee = next((other for other in self.functions if other.name == body[begin - 1] and other.body), None)
        number = len(split(body[begin + 1:at + 1], {","})) - 1
        return bool(callee) and number < len(callee.parameters) and callee.parameters[number][-1] in self.updated.get(callee.name, ())


def is_release(name, tree):
    return RELEASES.match(name) and tree.kinds.get(name, "void") in ("void", "status")


# ---- One function, on all its paths. A state is a frozenset of pairs: (place, what is known), (variable, whether it is true), (("alias", place), variable).

def with_(state, key, value):
    known = dict(state)
    known.pop(key, None)
    if value is not None:
        known[key] = value
    return frozenset(known.items())


class Walk:
    def __init__(self, function, tree):
        self.function, self.tree, self.found = function, tree, {}
        self.used_up = set()  # what is released where nothing fails, too
        self.outs = {str(p[-1]) for p in function.parameters if is_out(p)}
        self.parameters = {str(p[-1]) for p in function.parameters if p and p[-2:-1] == ["*"]}
        self.pointers, self.booleans = set(), {}
        self.waiting = {}  # of labels

    def report(self, line, text, place=None):
        self.found.setdefault((line, text), place)

    # -- places

    def place(self, tokens):
        """The place that an expression names, or None."""
        while len(tokens) > 2 and tokens[0] == "(" and end_of(tokens, 0) == len(tokens):
            tokens = tokens[1:-1]
        if len(tokens) == 2 and tokens[0] == "*" and tokens[1] in self.outs:
            return "*" + tokens[1]
        if len(tokens) == 1 and tokens[0] in self.pointers:
            return str(tokens[0])
        return self.field(tokens)

    def field(self, tokens):
        """p->field of a parameter."""
        return "".join(tokens) if len(tokens) == 3 and tokens[1] == "->" and tokens[0] in self.parameters else None

    def handed(self, argument):
        """The place that a call may write because its address is an argument."""
        if len(argument) == 1 and argument[0] in self.outs:
            return "*" + argument[0]
        if len(argument) == 2 and argument[0] == "&" and argument[1] in self.pointers:
            return str(argument[1])
        return self.field(argument[1:]) if argument and argument[0] == "&" else None

    def set_place(self, state, place, value, alias=None):
        state = with_(with_(state, place, value), ("alias", place), alias)
        for key, other in list(state):
            if isinstance(key, tuple) and other == place:
                state = with_(state, key, None)
        return state

    def release(self, state, place, line):
        known = dict(state)
        if known.get(place) == RELEASED:
            self.report(line, f"releases {place.lstrip('*')}, which was released before")
        if known.get(place) == OLD and place in self.pointers:
            self.report(line, f"releases {place}, which nobody may have written")
        same = {place, known.get(("alias", place))} | {key[1] for key, other in state if isinstance(key, tuple) and other == place}
        for other in same & {place, *known.keys()}:
            if known.get(other) != NULL:
                state = with_(state, other, RELEASED)
        return state

    # -- expressions: lists of (state, True, False or None: not known)

    def value(self, state, tokens):
        if not tokens:
            return [(state, None)]
        if tokens[0] == "(" and end_of(tokens, 0) == len(tokens):
            return self.value(state, tokens[1:-1])
        # A cast.
        if tokens[0] == "(" and len(tokens) > 3 and tokens[end_of(tokens, 0) - 2:end_of(tokens, 0) - 1] in (["*"], ["void"]):
            return self.value(state, tokens[end_of(tokens, 0):])
        parts = split(tokens, {","})
        if len(parts) > 1:
            return self.in_turn(state, parts)
        assigned = split(tokens, {"="})
        if len(assigned) > 1:
            return self.assign(state, assigned[0], [token for part in assigned[1:] for token in (*part, "=")][:-1])
        if len(split(tokens, {"?"})) > 1:
            return self.choose(state, tokens)
        for operator, stops in (("||", True), ("&&", False)):
            parts = split(tokens, {operator})
            if len(parts) > 1:
                return self.shortcut(state, parts, stops)
        for operator in ("==", "!="):
            parts = split(tokens, {operator})
            if len(parts) == 2:
                return self.compare(state, *parts, operator == "==")
        if tokens[0] == "!":
            return [(after, None if truth is None else not truth) for after, truth in self.value(state, tokens[1:])]
        return self.atom(state, tokens)

    def in_turn(self, state, parts):
        found = [(state, None)]
        for part in parts:
            found = [after for before in dict.fromkeys(before for before, _ in found) for after in self.value(before, part)]
        return found

    def shortcut(self, state, parts, stops):
        done, going = [], [state]
        for number, part in enumerate(parts):
            further = []
            for before in going:
                for after, truth in self.value(before, part):
                    if truth is not (not stops):
                        done.append((after, stops))
                    if truth is not stops:
                        further.append(after)
            going = list(dict.fromkeys(further))
        return done + [(after, not stops) for after in going]

    def choose(self, state, tokens):
        at = next(i for i in range(len(tokens)) if tokens[i] == "?" and len(split(tokens[:i], {"?"})) == 1 and self.is_level(tokens, i))
        depth, colon = 0, at + 1
        while colon < len(tokens):
            if tokens[colon] in OPENING:
                colon = end_of(tokens, colon)
                continue
            depth += (tokens[colon] == "?") - (tokens[colon] == ":")
            if depth < 0:
                break
            colon += 1
        found = []
        for after, truth in self.value(state, tokens[:at]):
            if truth is not False:
                found += self.value(after, tokens[at + 1:colon])
            if truth is not True:
                found += self.value(after, tokens[colon + 1:])
        return found

    @staticmethod
    def is_level(tokens, at):
        depth = 0
        for token in tokens[:at]:
            depth += (token in OPENING) - (token in CLOSING)
        return depth == 0

    def compare(self, state, left, right, is_equal):
        if right in (["LH_OK"], ["0"], ["NULL"], ["false"]):
            return [(after, None if truth is None else truth != is_equal) for after, truth in self.value(state, left)]
        return [(after, None) for after, _ in self.in_turn(state, [left, right])]

    def atom(self, state, tokens):
        if len(tokens) == 1:
            return self.word(state, tokens[0])
        place = self.place(tokens)
        if place:
            return self.known_place(state, place)
        if WORD.match(tokens[0]) and tokens[0] not in KEYWORDS and tokens[1] == "(" and end_of(tokens, 1) == len(tokens):
            return self.call(state, tokens[0], split(tokens[2:-1], {","}))
        # Whatever else: the calls in it happen.
        found, at = [(state, None)], 0
        while at < len(tokens):
            if WORD.match(tokens[at]) and tokens[at] not in KEYWORDS and tokens[at + 1:at + 2] == ["("]:
                end = end_of(tokens, at + 1)
                if tokens[at - 1:at] not in (["->"], ["."]):
                    found = list(dict.fromkeys((after, None) for before, _ in found for after, _ in self.value(before, tokens[at:end])))
                else:
                    found = [(after, None) for before, _ in found for after, _ in self.in_turn(before, split(tokens[at + 2:end - 1], {","}))]
                at = end
            else:
                at += 1
        return found

    def word(self, state, word):
        if word in ("NULL", "LH_OK", "0", "false"):
            return [(state, False)]
        if word in ("true", "1") or word.startswith("LH_ERR_"):
            return [(state, True)]
        if word in self.pointers:
            return self.known_place(state, str(word))
        if word in self.booleans:
            known = dict(state).get(str(word))
            return [(state, known)] if known is not None else [(with_(state, str(word), truth), truth) for truth in (True, False)]
        return [(state, None)]

    def known_place(self, state, place):
        return [(state, {NULL: False, NEW: True, RELEASED: True}.get(dict(state).get(place)))]

    def call(self, state, name, arguments):
        states = [state]
        for argument in arguments:
            if not self.place(argument) and not self.handed(argument):
                states = list(dict.fromkeys(after for before in states for after, _ in self.value(before, argument)))
        if is_release(name, self.tree):
            place = self.place(arguments[0])
            return [(self.release(before, place, name.line) if place else before, None) for before in states]
        written = [place for place in map(self.handed, arguments) if place]
        kind = self.tree.kinds.get(name, "other")
        if FAILS.match(name):
            return [(after, kind != "bool") for after in dict.fromkeys(states)]
        found = []
        for before in dict.fromkeys(states):
            after = before
            for place in written:
                after = self.set_place(after, place, NEW)
            if kind == "status":
                found += [(after, False), (before, True)]
            elif kind in ("bool", "pointer"):
                found += [(after, True), (before, False)]
            else:
                found.append((after, None))
        return found

    def assign(self, state, left, right):
        left = [token for token in left if token not in ("const", "static")]
        place = self.place(left)
        name = str(left[-1]) if len(left) == 1 else None
        found = []
        for after, truth in self.value(state, right):
            if place and right == ["-", "1"]:
                found.append((self.set_place(after, place, NULL), None))  # a descriptor
            elif place:
                source = self.place(right)
                known = dict(after).get(source, NEW) if source else NEW
                outcomes = [NULL] if truth is False else [known] if truth or source else [NEW, NULL]
                for outcome in outcomes:
                    found.append((self.set_place(after, place, outcome, source if outcome != NULL else None), outcome != NULL))
            elif name in self.booleans:
                found.append((with_(after, name, truth), truth))
            else:
                found.append((after, truth))
        return found

    # -- statements: the states behind one

    def declare(self, states, tokens):
        """The states behind a declaration, or None where the statement is none."""
        at = 0
        while at < len(tokens) and tokens[at] in ("const", "static", "struct", "unsigned", "enum", "_Atomic"):
            at += 1
        if at >= len(tokens) or not WORD.match(tokens[at]) or tokens[at] in KEYWORDS:
            return None
        declarators = split(tokens[at + 1:], {","})
        if not declarators[0] or not re.fullmatch(r"(\*|const )*[A-Za-z_]\w*(=.*|\[.*|)", "".join(f"{t} " if t == "const" else t for t in declarators[0]), re.S):
            return None
        for declarator in declarators:
            head, *initial = split(declarator, {"="})
            stars = sum(token == "*" for token in head)
            name = next((str(token) for token in head if WORD.match(token) and token != "const"), None)
            if not name:
                continue
            is_plain = head[-1] == name
            if stars == 1 and is_plain and "static" not in tokens[:at]:
                self.pointers.add(name)
                states = [self.set_place(state, name, OLD) for state in states]
            elif stars == 0 and is_plain and tokens[at] in ("lh_status", "bool", "int"):
                self.booleans[name] = tokens[at]
                states = [with_(state, name, None) for state in states]
            else:
                self.pointers.discard(name)
                self.booleans.pop(name, None)
            if initial:
                right = [token for part in initial for token in (*part, "=")][:-1]
                states = [after for state in states for after, _ in self.assign(state, [name] if is_plain else [], right)]
        return states

    def leave(self, states, expression, line):
        kind = kind_of(self.function.returns)
        for state in states:
            for after, truth in self.value(state, expression):
                fails = {"status": truth is not False, "bool": truth is not True}.get(kind, False)
                if truth is False and kind == "status" or truth is True and kind == "bool":
                    self.used_up |= {place for place, known in after if known == RELEASED and "->" in place}
                for place, known in after if fails else ():
                    if known in self.bad_after_failure(place, kind):
                        self.report(line, f"may return a failure after {place} was {known}", place)

    def bad_after_failure(self, place, kind):
        """A function that is bool may say no without having failed."""
        if "->" in place:
            return (RELEASED,)
        if not place[:1] == "*":
            return ()
        return (RELEASED,) if kind == "bool" or place[1:] in self.tree.updated.get(self.function.name, ()) else (NEW, RELEASED)

    def branch(self, states, condition):
        """Those for which a condition holds, and those for which it does not."""
        yes, no = [], []
        place = self.place(condition)
        for after, truth in (outcome for state in states for outcome in self.value(state, condition)):
            if truth is not False:
                yes.append(after)
            if truth is not True:
                no.append(self.set_place(after, place, NULL) if place else after)
        return list(dict.fromkeys(yes)), list(dict.fromkeys(no))

    def run(self, statement, states, breaks, continues):
        states = list(dict.fromkeys(states))[:PATHS_MAX]
        kind = statement[0]
        if kind == "label":
            return states + self.waiting.pop(statement[1], [])
        if kind == "block":
            for inner in statement[1]:
                states = self.run(inner, states, breaks, continues)
            return states
        if not states:
            # Labels inside may still be reached.
            for inner in statement[2:] if kind in ("if", "while", "for", "switch", "do") else ():
                states = states + self.run(inner, [], breaks, continues)
            return states
        if kind == "expression":
            declared = self.declare(states, statement[1])
            return declared if declared is not None else [after for state in states for after, _ in self.value(state, statement[1])]
        if kind == "if":
            yes, no = self.branch(states, statement[1])
            return self.run(statement[2], yes, breaks, continues) + self.run(statement[3], no, breaks, continues)
        if kind in ("while", "for", "do"):
            return self.loop(statement, states)
        if kind == "switch":
            return self.switch(statement, states, continues)
        if kind == "return":
            self.leave(states, statement[1], statement[2])
        elif kind == "goto":
            self.waiting.setdefault(str(statement[1][0]), []).extend(states)
        elif kind == "break":
            breaks.extend(states)
        elif kind == "continue":
            continues.extend(states)
        return [] if kind != "case" else states

    def loop(self, statement, states):
        kind, head, body = statement
        condition, step = head, []
        if kind == "for":
            first, condition, step = (split(head, {";"}) + [[], []])[:3]
            declared = self.declare(states, first)
            states = declared if declared is not None else [after for state in states for after, _ in self.value(state, first)]
        left = []
        for turn in range(2):
            going = states
            if kind != "do" or turn:
                going, done = self.branch(states, condition) if condition else (states, [])
                left += done
            breaks, continues = [], []
            states = self.run(body, going, breaks, continues) + continues
            left += breaks
            if step:
                states = [after for state in states for after, _ in self.value(state, step)]
            states = list(dict.fromkeys(states))
        left += self.branch(states, condition)[1] if condition else []
        return list(dict.fromkeys(left))

    def switch(self, statement, states, continues):
        entry = [after for state in states for after, _ in self.value(state, statement[1])]
        breaks, at = [], []
        cases = statement[2][1] if statement[2][0] == "block" else [statement[2]]
        for inner in cases:
            at = self.run(inner, at + entry if inner[0] == "case" else at, breaks, continues)
        passed = [] if ("case", True) in cases else entry
        return list(dict.fromkeys(at + breaks + passed))

    def problems(self):
        begin = frozenset(("*" + name, OLD) for name in self.outs)
        self.run(parse_block(self.function.body), [begin], [], [])
        return [problem for problem, place in self.found.items() if place not in self.used_up]


def is_of_interest(function, tree):
    return function.body and (any(map(is_out, function.parameters)) or any(WORD.match(token) and is_release(token, tree) for token in function.body))


def problems_of(tree):
    """Pairs of a line and what is wrong there, of the functions that a tree defines."""
    for function in tree.functions:
        if is_of_interest(function, tree):
            for line, problem in Walk(function, tree).problems():
                yield line, f"{function.name} {problem}"


def problems_of_file(text, heads):
    """The same, by what headers declare, but for EXCEPT; and how many functions there are to be looked at."""
    tree = Tree([text])
    tree.kinds = {**heads.kinds, **tree.kinds}
    found = [(line, problem) for line, problem in problems_of(tree) if problem.split()[0] not in EXCEPT]
    return found, sum(bool(is_of_interest(function, tree)) for function in tree.functions)


# ---- Faults of its own. Each is a body with what is to be said of it; "": nothing.

HEAD = """lh_status x_create(int n, x **made, lh_error *error);
void x_destroy(x *old);
lh_status x_begin(x *of, lh_error *error);
bool x_find(x **found);
x *x_any(void);
"""
IS_WRITTEN, IS_RELEASED, IS_RELEASED_TWICE, IS_UNWRITTEN = "failure after *out was written", "failure after *out was released", "released before", "nobody may have written"
CASES = (
    ("handed over when all is well", "x *made; lh_status s = x_create(1, &made, e); if (s) return s; s = x_begin(made, e); if (s) { x_destroy(made); return s; } *out = made; return LH_OK;", ""),
    ("released, and left there", "lh_status s = x_create(1, out, e); if (s) return s; s = x_begin(*out, e); if (s) x_destroy(*out); return s;", IS_RELEASED),
    ("released, and set to NULL", "lh_status s = x_create(1, out, e); if (s) return s; s = x_begin(*out, e); if (s) { x_destroy(*out); *out = NULL; } return s;", ""),
    ("left there, of a known size", "*out = calloc(1, sizeof **out); if (!*out) return LH_ERR_NO_MEMORY; return x_begin(*out, e);", IS_WRITTEN),
    ("left there, made elsewhere", "x *made = calloc(1, sizeof **out); if (!made) return LH_ERR_NO_MEMORY; *out = made; return x_begin(made, e);", IS_WRITTEN),
    ("left there", "lh_status s = x_create(1, out, e); if (!s) s = x_begin(*out, e); return s;", IS_WRITTEN),
    ("handed over too early", "x *made = calloc(1, 8); if (!made) return LH_ERR_NO_MEMORY; *out = made; return x_begin(made, e);", IS_WRITTEN),
    ("released under another name", "x *made = calloc(1, 8); if (!made) return LH_ERR_NO_MEMORY; *out = made; if (x_begin(made, e)) { x_destroy(made); return LH_ERR_IO; } return LH_OK;", IS_RELEASED),
    ("released behind a label", "if (x_create(1, out, e) != LH_OK) return LH_ERR_IO; if (x_begin(*out, e)) goto fail; return LH_OK; fail: free(*out); return LH_ERR_IO;", IS_RELEASED),
    ("released in a loop", "for (int i = 0; i < 3; i++) { lh_status s = x_create(i, out, e); if (s) return s; x_destroy(*out); } return LH_OK;", IS_RELEASED),
    ("released in a case", "if (x_create(1, out, e)) return LH_ERR_IO; switch (n) { case 1: x_destroy(*out); break; default: return LH_OK; } return LH_ERR_IO;", IS_RELEASED),
    ("a failure of its own words", "*out = x_any(); return *out ? lh_fail(e, LH_ERR_IO, \"%d\", 1) : LH_OK;", IS_WRITTEN),
    ("not found", "*out = x_any(); if (!*out) return LH_ERR_IO; return LH_OK;", ""),
    ("found before", "if (x_find(out)) return LH_OK; return x_create(1, out, e);", ""),
    ("released twice", "x *a; lh_status s = x_create(1, &a, e); if (s) return s; s = x_begin(a, e); if (s) x_destroy(a); x_destroy(a); return s;", IS_RELEASED_TWICE),
    ("released once on each path", "x *a; lh_status s = x_create(1, &a, e); if (s) return s; s = x_begin(a, e); if (s) { x_destroy(a); return s; } x_destroy(a); return s;", ""),
    ("released and never written", "x *a; lh_status s = x_create(1, &a, e); x_destroy(a); return s;", IS_UNWRITTEN),
    ("begins as NULL", "x *a = NULL; lh_status s = x_create(1, &a, e); x_destroy(a); return s;", ""),
    ("only where it was written", "x *a; lh_status s = x_create(1, &a, e); if (s == LH_OK) x_destroy(a); return s;", ""),
    ("updated, the caller's before and after", "if (*out) x_destroy(*out); *out = NULL; return x_begin(NULL, e);", ""),
    ("a field is left there", "lh_status s = x_create(1, &p->x, e); if (s) return s; s = x_begin(p->x, e); if (s) x_destroy(p->x); return s;", "failure after p->x was released"),
    ("a field is set to NULL", "lh_status s = x_create(1, &p->x, e); if (s) return s; s = x_begin(p->x, e); if (s) { x_destroy(p->x); p->x = NULL; } return s;", ""),
    ("a descriptor of a field", "if (x_begin(p->x, e)) { close(p->fd); p->fd = -1; return LH_ERR_IO; } return LH_OK;", ""),
    ("a field is used up", "lh_status s = x_begin(p->x, e); x_destroy(p->x); return s;", ""),
    ("in a macro's loop", "lh_status s = x_create(1, out, e); if (s) return s; LIST_FOREACH(a, b, c) { if (x_begin(a, e)) { x_destroy(*out); return LH_ERR_IO; } } return LH_OK;", IS_RELEASED),
)


def self_test():
    for name, body, wanted in CASES:
        text = f"/* // */ {HEAD}static lh_status f(int n, y *p, x **out, lh_error *e) {{ {body} }}\n"
        found = [problem for _, problem in problems_of(Tree([text]))]
        assert (len(found) == 1 and wanted in found[0]) if wanted else not found, f"{name}: {found} in place of {wanted!r}"
    bool_text = HEAD + "bool g(x **out) { *out = x_any(); x_destroy(*out); return false; } bool h(x **out) { *out = x_any(); return false; }"
    assert [problem.split()[0] for _, problem in problems_of(Tree([bool_text]))] == ["g"]


def main():
    self_test()
    texts = {path: path.read_text(encoding="utf-8") for room in ROOMS for path in sorted((ROOT / room).rglob("*.[ch]"))}
    heads = Tree([text for path, text in texts.items() if path.suffix == ".h"])
    found, count = [], 0
    for path, text in texts.items():
        if path.suffix == ".c":
            own, functions = problems_of_file(text, heads)
            found += [f"{path.relative_to(ROOT)}:{line}: {problem}" for line, problem in own]
            count += functions
    stale = [name for name in EXCEPT if not any(f"{name}(" in text for text in texts.values())]
    found += [f"{name} is excepted and is no function" for name in stale]
    print("\n".join(found))
    print(f"{count} functions in {len(texts)} files, {len(found)} problems")
    return 1 if found or count < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
