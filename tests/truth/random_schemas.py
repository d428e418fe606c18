"""Random JSON Schemas of what the gateway follows, each with values that satisfy it, in the order in which the gateway writes them."""
import random

# A pattern, and texts that it finds.
PATTERNS = (("^[a-z]{2,5}$", ("ab", "abcde")), ("[0-9]+", ("a1b", "7", "\u00e4 12")), ("^(foo|ba[rz])$", ("foo", "bar", "baz")),
            ("^\\w+@\\w+$", ("a@b", "x_1@y")), ("^[^\"\\\\]*$", ("", "plain", "\u65e5\u672c")), ("\\\\", ("\\", "a\\b")), ("^.{3}", ("abc", "\u00e4\u00f6\u00fcx")))
FORMATS = {"date": ("2024-02-29", "1999-12-31"), "time": ("23:59:59Z", "00:00:00.123+01:00"), "date-time": ("2024-02-29T12:00:00Z",),
           "uuid": ("123e4567-e89b-12d3-a456-426614174000",), "email": ("a.b@example.org",), "ipv4": ("127.0.0.1", "255.255.255.0"),
           "ipv6": ("::1", "2001:db8::ff00:42:8329", "::"), "hostname": ("example.org",), "duration": ("P1DT2H", "PT0S"), "uri": ("https://example.org/a?b=c#d",)}
WORDS = ("a", "name", "ab", "naive", "x y", "\u00fcber", "quo\"te", "back\\slash", "line\nfeed", "", "0", "tab\there", "\u65e5\u672c", "\U0001f600", "a/b", "~")
ANNOTATIONS = ({}, {}, {"title": "T"}, {"description": "of it"}, {"default": None}, {"examples": [1]}, {"x-own": {"a": []}}, {"$comment": "no"})


class RandomSchemas:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.definitions = {}

    def whole(self):
        """(schema, values)"""
        self.definitions = {}
        schema, values = self.schema(3)
        if self.definitions:
            schema = {**schema, "$defs": self.definitions}
        return schema, values

    def schema(self, depth):
        kinds = [self.null, self.boolean, self.integer, self.number, self.string, self.enumeration, self.constant]
        if depth > 0:
            kinds += [self.array, self.array, self.tuple, self.object, self.object, self.object, self.union, self.merged, self.reference, self.typed, self.map,
                      self.tree, self.patterned, self.named, self.containing, self.without]
        schema, values = self.random.choice(kinds)(depth - 1)
        return {**self.random.choice(ANNOTATIONS), **schema}, values[:6]

    def some(self, values, most=3):
        return self.random.sample(values, min(most, len(values)))

    def null(self, _):
        return {"type": "null"}, [None]

    def boolean(self, _):
        return {"type": "boolean"}, [True, False]

    def integer(self, _):
        low, size = self.random.randint(-1200, 1200), self.random.choice((0, 1, 9, 50, 12345))
        schema, values = {"type": "integer"}, [0, -7, 123456789]
        kind = self.random.randrange(6)
        if kind == 1:
            schema, values = {"type": "integer", "minimum": low, "maximum": low + size}, [low, low + size, low + size // 2]
        elif kind == 2:
            schema, values = {"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": low + size + 2}, [low + 1, low + size + 1]
        elif kind == 3:
            of = self.random.choice((2, 3, 5, 7, 10, 12, 100))
            schema, values = {"type": "integer", "multipleOf": of, "minimum": low}, [of * (low // of + 1), of * (low // of + 100)]
        elif kind == 4:
            schema, values = {"type": "integer", "minimum": low - 0.5}, [low, low + 1, 99999]
        elif kind == 5:
            schema, values = {"type": "integer", "maximum": low}, [low, low - 1, -99999]
        return schema, values

    def number(self, _):
        low, size = self.random.randint(-300, 300) / 8, self.random.choice((0.25, 3, 1000.5))
        schema, values = {"type": "number"}, [0, -1.5, 1e-07, 1e+100, 12345.678, -0.0, 2.0]
        kind = self.random.randrange(5)
        if kind == 1:
            schema, values = {"type": "number", "minimum": low, "maximum": low + size}, [low, low + size, low + size / 2]
        elif kind == 2:
            schema, values = {"type": "number", "exclusiveMinimum": low, "maximum": low + size}, [low + size, low + size / 2]
        elif kind == 3:
            schema, values = {"type": "number", "multipleOf": self.random.choice((0.5, 0.25, 2))}, [0, 2, -4.0, 1000]
        elif kind == 4:
            schema, values = {"type": "number", "exclusiveMaximum": 0}, [-1, -0.001, -12.5]
        return schema, values

    def string(self, _):
        kind = self.random.randrange(6)
        pattern, found = self.random.choice(PATTERNS)
        least, more = self.random.choice((0, 1, 2, 5)), self.random.choice((0, 1, 4, 70))
        if kind == 1:
            return {"type": "string", "minLength": least, "maxLength": least + more}, ["\u00e4" * least, "\"" * (least + more)]
        if kind == 2:
            return {"type": "string", "pattern": pattern}, list(found)
        if kind == 3:
            length = max(map(len, found))
            return {"type": "string", "pattern": pattern, "maxLength": length}, list(found)
        if kind == 4:
            name = self.random.choice(sorted(FORMATS))
            return {"type": "string", "format": name}, list(FORMATS[name])
        if kind == 5:
            return {"type": "string", "minLength": least}, ["x" * least, "\U0001f600" * (least + 3)]
        return {"type": "string"}, list(WORDS)

    def enumeration(self, _):
        values = self.some([1, 2.5, "a", "b\"", None, True, [1, {"x": "y"}], {"k": [], "l": {}}, -3, "\u00e4"], 5)
        return {"enum": values}, list(values)

    def constant(self, _):
        value = self.random.choice([0, "fixed", None, [1, 2], {"a": {"b": 1}}])
        return {"const": value}, [value]

    def typed(self, depth):
        one, values = self.string(depth)
        other, numbers = self.integer(depth)
        return {**one, **other, "type": ["string", "integer", "null"]}, self.some(values) + self.some(numbers) + [None]

    def array(self, depth):
        items, values = self.schema(depth)
        least, more = self.random.choice((0, 0, 1, 3)), self.random.choice((0, 1, 5, None))
        schema = {"type": "array", "items": items}
        if least:
            schema["minItems"] = least
        if more is not None:
            schema["maxItems"] = least + more
        lengths = [least] + ([least + more] if more is not None else [least + 2])
        return schema, [[self.random.choice(values) for _ in range(length)] for length in lengths]

    def tuple(self, depth):
        parts = [self.schema(depth) for _ in range(self.random.randint(1, 3))]
        schema = {"type": "array", "prefixItems": [part for part, _ in parts]}
        whole = [self.random.choice(values) for _, values in parts]
        instances = [whole, whole[:-1], []]
        kind = self.random.randrange(3)
        if kind == 1:
            schema["minItems"] = len(parts)
            instances = [whole]
        elif kind == 2:
            schema["items"], rest = self.schema(depth)
            instances.append(whole + self.some(rest, 2))
        return schema, instances

    def members(self, depth, prefix=""):
        names = self.some([prefix + name for name in WORDS], self.random.randint(1, 5))
        return {name: self.schema(depth) for name in names}

    def choose(self, members, required):
        return {name: self.random.choice(values) for name, (_, values) in members.items() if name in required or self.random.random() < 0.5}

    def object(self, depth):
        members = self.members(depth)
        required = [name for name in members if self.random.random() < 0.5]
        schema = {"type": "object", "properties": {name: part for name, (part, _) in members.items()}}
        if required or self.random.random() < 0.3:
            schema["required"] = required
        instances = [self.choose(members, required) for _ in range(4)]
        kind = self.random.randrange(5)
        if kind == 1:
            schema["additionalProperties"], values = self.schema(depth)
            instances += [{**self.choose(members, required), "na": self.random.choice(values), "\u00e4\"": self.random.choice(values)}]
        elif kind == 2:
            schema["additionalProperties"] = False
        elif kind == 3:
            schema["minProperties"] = self.random.randint(0, len(members))
            instances = [value for value in instances if len(value) >= schema["minProperties"]]
        elif kind == 4:
            schema["maxProperties"] = self.random.randint(len(required), len(members) + 1)
            instances = [value for value in instances if len(value) <= schema["maxProperties"]]
        wanted = required if kind == 4 else members
        return schema, instances or [{name: self.random.choice(members[name][1]) for name in members if name in wanted}]

    def map(self, depth):
        values, instances = self.schema(depth)
        return {"type": "object", "additionalProperties": values}, [{}, {"a": instances[0]}, {name: self.random.choice(instances) for name in self.some(WORDS, 4)}]

    def patterned(self, depth):
        one, values = self.schema(depth)
        two, others = self.schema(depth)
        schema = {"type": "object", "properties": {"id": two}, "patternProperties": {"^x-[a-z]+$": one}, "additionalProperties": False}
        if self.random.random() < 0.5:
            schema["patternProperties"]["^y"] = two
            return schema, [{}, {"x-a": values[0], "y-b": others[0]}, {"id": others[-1], "y": others[0], "x-zz": values[-1]}]
        return schema, [{}, {"x-a": values[0]}, {"id": others[0], "x-bc": values[-1], "x-d": values[0]}]

    def named(self, depth):
        values, instances = self.schema(depth)
        names, found = self.random.choice((({"pattern": "^[a-c]+$", "maxLength": 3}, ("a", "abc")), ({"enum": ["x y", "line\nfeed", "q"]}, ("x y", "q")),
                                           ({"minLength": 2}, ("\u00e4\u00f6", "abcd")), ({"format": "date"}, ("2024-02-29",))))
        return {"type": "object", "additionalProperties": values, "propertyNames": names}, [{}, {name: self.random.choice(instances) for name in found}]

    def containing(self, depth):
        most, wanted = self.random.randint(1, 4), self.random.randint(0, 2)
        schema = {"type": "array", "items": {"type": ["integer", "string"]}, "contains": {"type": "integer", "minimum": 10}, "minContains": wanted}
        if self.random.random() < 0.5:
            schema["maxItems"] = most + wanted
        return schema, [[10] * wanted, ["a", 3][:most] + [10, 11][:wanted], [99] * wanted + ["z"]]

    def without(self, depth):
        schema, values = self.union(depth)
        kept = [value for value in values if not isinstance(value, str) and value is not None]
        return {"anyOf": [*schema["anyOf"], {"type": "boolean"}], "not": {"type": ["string", "null"]}}, [*kept, True]

    def union(self, depth):
        parts = [self.schema(depth) for _ in range(self.random.randint(1, 4))]
        return {"anyOf": [part for part, _ in parts]}, [value for _, values in parts for value in self.some(values, 2)]

    def merged(self, depth):
        """Objects of which each tells a part; or bounds that hold together."""
        if self.random.random() < 0.3:
            return {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 40}, {"multipleOf": 2}, {"multipleOf": 3}]}, [6, 12, 36]
        one, two = self.members(depth), self.members(depth, "2")
        required = [name for name in one if self.random.random() < 0.5]
        schema = {"allOf": [{"type": "object", "properties": {name: part for name, (part, _) in one.items()}},
                            {"properties": {name: part for name, (part, _) in two.items()}, "required": required + list(two)}]}
        return schema, [{**self.choose(one, required), **self.choose(two, two)} for _ in range(3)]

    def reference(self, depth):
        name = self.random.choice(("node", "a/b", "t~x", "per cent"))
        if name in self.definitions:
            return {"type": "null"}, [None]
        self.definitions[name] = {}
        self.definitions[name], values = self.schema(depth)
        return {"$ref": "#/$defs/" + name.replace("~", "~0").replace("/", "~1").replace(" ", "%20")}, values

    def tree(self, depth):
        if "tree" in self.definitions:
            return {"type": "boolean"}, [True]
        self.definitions["tree"] = {}
        leaf, values = self.schema(0)
        self.definitions["tree"] = {"type": "object", "properties": {"leaf": leaf, "next": {"oneOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
                                                                   "all": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["leaf"]}
        end = {"leaf": self.random.choice(values)}
        return {"$ref": "#/$defs/tree"}, [end, {**end, "next": None}, {**end, "next": {**end, "next": end}, "all": [end, {**end, "all": []}]}]
