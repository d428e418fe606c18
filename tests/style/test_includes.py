"""Include direction, third-party walls and the few rules about files, over the tree: the drawing must not drift from the code.

What a file includes is followed through the headers that it includes in turn: a room that may not be used may not be reached either.
Before it looks at the tree, the test plants one violation of each rule in a small tree of its own and expects each to be found."""
import fnmatch
import os
import pathlib
import re
import sys
import tempfile

ROOMS = ("common", "gateway", "kernels", "link", "worker")
LINES_MAX = 1000

BASE = ("common/base",)
GROUND = BASE + ("common/gguf", "common/json", "common/protocol")
WIRE = ("common/net", "common/http2", "common/protocol/client", "common/protocol/trial")
COMPUTE = ("common/model", "worker/compute", "worker/compute/stage", "worker/compute/pipeline")

# Room -> the rooms, or single headers, whose headers its files may come to see besides its own. docs/ARCHITECTURE.md draws it.
ARROWS = {
    "common/base": (),
    "common/net": BASE,
    "common/metrics": BASE,
    "common/operator": BASE + ("common/net",),
    "common/gguf": BASE,
    "common/json": BASE,
    "common/config": BASE,
    "common/model": BASE + ("common/gguf",),
    "common/doctor": BASE + ("common/json",),
    "common/sandbox": BASE + ("common/net",),
    "common/http2": BASE + ("common/net",),
    "common/protocol": BASE + ("common/json",),
    "common/protocol/control": BASE + ("common/json", "common/protocol"),
    "common/protocol/join": BASE + ("common/json",),
    "common/protocol/client": BASE + ("common/json", "common/protocol", "common/net", "common/http2"),
    "common/protocol/trial": BASE + ("common/json", "common/protocol", "common/net", "common/http2", "common/protocol/client"),
    "kernels": ("common/base/status.h", "common/base/dtype.h"),
    "kernels/reference": ("kernels", "common/base/status.h", "common/base/dtype.h"),
    "kernels/simd": ("kernels", "common/base/status.h", "common/base/dtype.h"),
    **{f"kernels/{name}": ("kernels", "kernels/reference", "kernels/simd", "common/base/status.h", "common/base/dtype.h")
       for name in ("avx2", "avx512", "neon", "cuda")},
    "worker/compute": BASE + ("common/gguf", "kernels"),
    "worker/compute/stage": BASE + ("common/gguf", "common/protocol/row_ask.h", "common/protocol/row_answer.h", "common/protocol/step_parts.h",
                                    "common/protocol/mask_code.h", "kernels",
                             "common/model", "worker/compute"),
    "worker/compute/pipeline": BASE + ("common/gguf", "common/protocol/row_ask.h", "common/protocol/row_answer.h", "common/protocol/step_parts.h", "kernels",
                                       "common/model", "worker/compute", "worker/compute/stage"),
    "worker/compute/cuda": BASE + ("common/gguf", "common/protocol/row_ask.h", "common/protocol/row_answer.h", "common/protocol/step_parts.h", "kernels", "kernels/cuda/cuda_fast.h", "kernels/cuda/cuda_kernels.h",
                                   "kernels/cuda/plugin.h", "common/model", "worker/compute", "worker/compute/stage"),
    "worker/mesh": BASE + ("common/net", "worker/compute/stage/gather.h"),
    "worker/team": BASE + ("common/gguf", "common/net", "common/model", "common/protocol", "kernels", "worker/compute", "worker/compute/stage", "worker/mesh"),
    "worker/weights": GROUND + ("common/net", "common/model", "kernels", "worker/compute"),
    "worker/serve": GROUND + WIRE + ("kernels",) + COMPUTE,
    "worker/control": GROUND + WIRE + ("common/protocol/control", "kernels", "worker/mesh", "worker/serve", "worker/team", "worker/weights") + COMPUTE,
    "worker/membership": GROUND + ("common/net", "common/http2", "common/protocol/join"),
    "worker": GROUND + WIRE + ("worker/compute/cuda", "kernels/cuda/cuda_fast.h", "kernels/cuda/cuda_kernels.h", "kernels/cuda/plugin.h", "common/doctor", "common/sandbox", "common/config", "common/metrics", "common/operator", "kernels", "common/protocol/control", "common/protocol/join", "worker/mesh", "worker/serve", "worker/team", "worker/weights", "worker/control",
                               "worker/membership") + COMPUTE,
    "gateway/text/jinja": BASE,
    "gateway/text/tools": BASE,
    "gateway/text": BASE + ("common/gguf", "gateway/text/jinja", "gateway/text/tools"),
    "gateway/constrain": BASE + ("common/gguf", "gateway/text", "gateway/text/tools"),
    "gateway/auth": BASE,
    "gateway/http": BASE + ("common/net",),
    "gateway/trace": GROUND,
    "gateway/cost": GROUND,
    "gateway/plan": GROUND + ("gateway/cost",),
    "gateway/kv": GROUND,
    "gateway/membership": BASE + ("common/json", "common/net", "common/protocol/join"),
    "gateway/schedule": GROUND + ("common/metrics", "gateway/constrain", "gateway/cost", "gateway/kv", "gateway/trace"),
    "gateway/fleet": GROUND + ("common/model", "gateway/cost", "gateway/kv", "gateway/plan"),
    "gateway/fleet/port": GROUND + WIRE + ("common/protocol/control", "common/protocol/join", "gateway/cost", "gateway/kv", "gateway/plan", "gateway/fleet", "gateway/membership"),
    "gateway/engine": GROUND + WIRE + ("common/protocol/join", "common/metrics", "gateway/constrain", "gateway/cost", "gateway/kv", "gateway/trace", "gateway/schedule",
                                       "gateway/plan", "gateway/fleet", "gateway/fleet/port", "gateway/membership"),
    "gateway/openai": GROUND + ("common/metrics", "gateway/constrain", "gateway/text", "gateway/text/jinja", "gateway/text/tools", "gateway/http", "gateway/auth", "gateway/trace", "gateway/cost", "gateway/kv",
                                "gateway/schedule", "gateway/engine"),
    "gateway/responses": GROUND + ("common/metrics", "gateway/constrain", "gateway/text", "gateway/text/jinja", "gateway/text/tools", "gateway/http", "gateway/auth", "gateway/trace",
                                   "gateway/cost", "gateway/kv", "gateway/schedule", "gateway/engine", "gateway/openai"),
    "gateway/anthropic": GROUND + ("common/metrics", "gateway/constrain", "gateway/text", "gateway/text/jinja", "gateway/text/tools", "gateway/http", "gateway/auth", "gateway/trace",
                                   "gateway/cost", "gateway/kv", "gateway/schedule", "gateway/engine", "gateway/openai"),
    "gateway/ollama": GROUND + ("common/metrics", "gateway/constrain", "gateway/text", "gateway/text/jinja", "gateway/text/tools", "gateway/http", "gateway/auth", "gateway/trace",
                                   "gateway/cost", "gateway/kv", "gateway/schedule", "gateway/engine", "gateway/openai"),
    "gateway/models": BASE + ("common/gguf", "common/json"),
    "gateway/operator": GROUND + ("common/metrics", "common/operator", "gateway/constrain", "gateway/text", "gateway/text/jinja", "gateway/text/tools", "gateway/http", "gateway/auth",
                                  "gateway/trace", "gateway/cost", "gateway/kv", "gateway/schedule", "gateway/engine", "gateway/openai"),
    "gateway/cli": GROUND + WIRE + ("common/protocol/join", "common/doctor", "common/sandbox", "common/config", "common/metrics", "common/operator", "gateway/*"),
    "gateway": GROUND + WIRE + ("common/protocol/join", "common/sandbox", "common/config", "common/metrics", "common/operator", "gateway/*"),
    "link": BASE,
}

# Header pattern -> the only files that may include it.
WALLS = {
    "microhttpd.h": ("gateway/http/*", "common/operator/*"),
    "jansson.h": ("gateway/text/jinja/template.[ch]", "gateway/text/chat_*.[ch]", "gateway/text/tools/*", "*_json.[ch]", "common/json/*", "common/protocol/step_answer.c", "gateway/openai/*.h",
                  "gateway/constrain/json_*.[ch]", "gateway/constrain/schema_*.[ch]", "gateway/constrain/constraint_source.[ch]", "gateway/constrain/constraint_cache.c", "worker/weights/weight_digests.c"),
    "zlib.h": ("gateway/http/gzip.c",),
    "gnutls/*": ("gateway/http/tls*.[ch]",),
    "curl/*": ("gateway/cli/api_transfer.c", "gateway/models/http_get.c", "worker/weights/weight_fetch.c", "worker/weights/clear_http2.c", "worker/control/*"),
    "nghttp2/*": ("common/http2/session.c", "common/http2/streams.c", "common/http2/framer.[ch]"),
    "openssl/*": ("common/net/tls_*", "common/base/digest.c", "gateway/membership/certificate_*.c", "worker/membership/certificate.c",
                  "worker/membership/own_key.c"),
    "uv.h": ("common/http2/*", "common/protocol/client/*", "common/protocol/trial/*", "worker/main.c", "worker/serve/*", "worker/control/*",
             "worker/membership/*",
             "worker/worker_metrics.[ch]", "gateway/main.c", "gateway/engine/*", "gateway/fleet/port/*"),
    "pcre2.h": ("gateway/text/pre_tokenizer.c",),
    "uninorm.h": ("gateway/text/nfc.c",),
    "unicase.h": ("gateway/text/jinja/unicode.c",),
    "unictype.h": ("gateway/text/jinja/unicode.c",),
    "xxhash.h": ("worker/compute/stage/sampler.c", "gateway/text/vocabulary.c", "gateway/kv/prefix_index.c", "gateway/constrain/stack_pool.c", "gateway/constrain/byte_walk.c",
                 "gateway/constrain/mask.c", "gateway/schedule/answer_record.c"),
    "sys/socket.h": ("common/net/*", "common/http2/*", "worker/mesh/*", "gateway/http/*", "link/uplink*"),
    "arpa/*": ("common/net/*address.*", "common/net/route.c", "common/net/listener.c", "common/net/port_owner.c", "common/net/allowed_hosts.c", "gateway/http/*", "link/uplink*"),
    "yaml.h": ("common/config/config_file.c",),
    "seccomp.h": ("common/sandbox/syscall_filter.c",),
    "netinet/*": ("common/net/*", "common/http2/*", "gateway/http/*"),
    "*mmintrin.h": ("kernels/avx2/*", "kernels/avx512/*"),
    "arm_neon.h": ("kernels/neon/*",),
    "cuda*": ("kernels/cuda/*",),
    "cublas*": ("kernels/cuda/*",),
}

BANNED_NAMES = ("util.*", "utils.*", "*_util.*", "*_utils.*", "helper.*", "helpers.*", "*_helpers.*", "misc.*", "gateway.h", "worker.h",
                "common.h")
BANNED_WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def matches(path, patterns):
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def room_of(path):
    return path.rsplit("/", 1)[0]


def may_see(path, header):
    room = room_of(path)
    return room_of(header) == room or header in ARROWS[room] or matches(room_of(header), ARROWS[room])


def shared_privates(root, files):
    """{file: private header}, of those headers that more than two files of the rooms include: what stands in a *_state.h is one noun's own."""
    includers = {}
    for path in files:
        if path.split("/")[0] in ROOMS:
            for include in INCLUDE.finditer((root / path).read_text(encoding="utf-8")):
                if include[2].endswith("_state.h") and not (root / include[2]).with_suffix(".c").is_file():
                    includers.setdefault(include[2], []).append(path)
    return {path: header for header, paths in includers.items() if len(paths) > 2 for path in paths}


class Includes:
    """What files of the tree include, and how each header comes to be seen."""

    def __init__(self, root):
        self.root = root
        self.direct = {}

    def of(self, path):
        if path not in self.direct:
            text = (self.root / path).read_text(encoding="utf-8") if (self.root / path).is_file() else ""
            self.direct[path] = [include[2] for include in INCLUDE.finditer(text) if include[1] == '"']
        return self.direct[path]

    def seen_through(self, header):
        """All headers of ours that come with `header`, each with the way to it: {header: [header, ..., itself]}."""
        ways, waiting = {header: [header]}, [header]
        while waiting:
            at = waiting.pop()
            for further in self.of(at):
                if further not in ways:
                    ways[further] = ways[at] + [further]
                    waiting.append(further)
        return ways


def arrow_problem(includes, path, header):
    """Why `path` may not include the file `header` of ours, or None."""
    if not (includes.root / header).is_file():
        return f'includes "{header}", which is no file: spell it from the root of the tree'
    if path.split("/")[0] == "tests":
        return None
    if room_of(path) not in ARROWS:
        return f"is in {room_of(path)}, which is no room: put it into one, or draw the room in ARROWS and docs/ARCHITECTURE.md"
    for seen, way in includes.seen_through(header).items():
        if not may_see(path, seen):
            through = f" (through {' -> '.join(way)})" if len(way) > 1 else ""
            return f'includes "{seen}"{through}: that arrow is not in the house ({room_of(path)} may see {", ".join(ARROWS[room_of(path)])})'
    return None


def wall_problem(path, header):
    """Why `path` may not include the library's <header>, or None."""
    if path.split("/")[0] == "tests":
        return None
    for pattern, files in WALLS.items():
        if fnmatch.fnmatchcase(header, pattern) and not matches(path, files):
            return f"includes <{header}>: it stands behind the wall of {', '.join(files)}"
    return None


def file_problems(path, text):
    if path.endswith(".h") and not re.search(r"^#pragma once$", text, re.M):
        yield "has no #pragma once"
    if path.split("/")[0] in ROOMS:
        lines = text.count("\n")
        if lines > LINES_MAX:
            yield f"has {lines} lines: over {LINES_MAX} a file holds more than one noun, split it"
        if not text.startswith("/*"):
            yield "does not open with a comment that says what it is for"
    if matches(path.split("/")[-1], BANNED_NAMES):
        yield "has a name that says nothing: call it by its noun"
    if found := BANNED_WORDS.search(text):
        yield f"says {found[0]}: finish it or leave it out"


def source_files(root):
    for room in ROOMS + ("tests",):
        for folder, _, names in os.walk(root / room):
            for name in names:
                if name.endswith((".c", ".h", ".cpp", ".cu", ".cuh")):
                    yield (pathlib.Path(folder) / name).relative_to(root).as_posix()


def problems(root):
    includes = Includes(root)
    files = sorted(source_files(root))
    shared = shared_privates(root, files)
    for path in files:
        text = (root / path).read_text(encoding="utf-8")
        if path in shared:
            yield f"{path}: includes {shared[path]}, which more than two files do: it holds parts that should be asked instead"
        for problem in file_problems(path, text):
            yield f"{path}: {problem}"
        for include in INCLUDE.finditer(text):
            line = text.count("\n", 0, include.start()) + 1
            if include[1] == '"':
                problem = arrow_problem(includes, path, include[2])
            else:
                problem = wall_problem(path, include[2])
            if problem:
                yield f"{path}:{line}: {problem}"


SOUND = {
    "common/base/status.h": "", "common/http2/session.c": "#include <nghttp2/nghttp2.h>\n#include <stdio.h>\n", "common/http2/client.h": "",
    "kernels/kernels.h": '#include "common/base/status.h"\n',
    "kernels/avx2/dot.c": '#include "kernels/kernels.h"\n#include <immintrin.h>\n',
    "worker/compute/stage/stage.h": '#include "kernels/kernels.h"\n',
    "worker/serve/server.h": '#include "common/protocol/step.h"\n#include "worker/compute/stage/stage.h"\n',
    "worker/serve/server.c": '#include "worker/serve/server.h"\n#include "common/http2/client.h"\n', "common/protocol/step.h": "",
    "gateway/cost/costs.h": '#include "common/protocol/step.h"\n', "gateway/fleet/chain.h": '#include "gateway/cost/costs.h"\n',
    **{f"gateway/kv/{name}.c": '#include "gateway/kv/pool_state.h"\n' for name in ("pool", "pool_later")}, "gateway/kv/pool_state.h": "",
    "gateway/schedule/scheduler.h": "", "gateway/engine/leak.h": '#include "gateway/fleet/chain.h"\n', "gateway/engine/engine.h": '#include "gateway/schedule/scheduler.h"\n',
    "tests/worker/test_stage.c": '#include "worker/compute/stage/stage.h"\n#include <uv.h>\n',
}
# path, text, what the message must say
UNSOUND = [
    ("gateway/fleet/plan.c", '#include "worker/compute/stage/stage.h"\n', "that arrow"),
    ("gateway/fleet/plan.h", '#include "kernels/kernels.h"\n', "that arrow"),
    ("gateway/fleet/plan.c", '#include "gateway/schedule/scheduler.h"\n', "that arrow"),
    ("gateway/cost/plan.c", '#include "gateway/fleet/chain.h"\n', "that arrow"),
    ("gateway/text/plan.c", '#include "gateway/cost/costs.h"\n', "that arrow"),
    ("gateway/schedule/plan.c", '#include "gateway/fleet/chain.h"\n', "that arrow"),
    ("worker/compute/stage/layer.c", '#include "common/protocol/step.h"\n', "that arrow"),
    ("worker/compute/stage/layer.h", '#include "worker/serve/server.h"\n', "that arrow"),
    ("common/model/model.c", '#include "common/http2/client.h"\n', "that arrow"),
    ("common/model/layout.h", '#include "worker/compute/stage/stage.h"\n', "that arrow"),
    ("worker/compute/pipeline/order.c", '#include "worker/serve/server.h"\n', "that arrow"),
    ("common/model/model.h", '#include "gateway/fleet/chain.h"\n', "that arrow"),
    ("common/protocol/client/client.c", '#include "worker/compute/stage/stage.h"\n', "that arrow"),
    ("worker/compute/stage/rows.c", '#include "kernels/avx2/dot.c"\n', "that arrow"),
    ("kernels/rope.c", '#include "common/http2/client.h"\n', "that arrow"),
    ("common/base/log.c", '#include "kernels/kernels.h"\n', "that arrow"),
    ("worker/weights/cache.c", '#include "worker/serve/server.h"\n', "that arrow"),
    # Reached through a header that may itself be included.
    ("gateway/openai/answer.c", '#include "gateway/engine/engine.h"\n#include "gateway/engine/leak.h"\n', "through gateway/engine/leak.h"),
    ("gateway/kv/third.c", '#include "gateway/kv/pool_state.h"\n', "more than two files do"),
    ("worker/compute/stage/rope.c", '#include "kernels.h"\n', "from the root"),
    ("gateway/attic/box.c", '#include "common/base/status.h"\n', "no room"),
    ("gateway/schedule/scheduler.c", "#include <jansson.h>\n", "behind the wall"),
    ("common/base/crc.c", "  #  include <nmmintrin.h>\n", "behind the wall"),
    ("worker/compute/stage/stage.c", "#include <uv.h>\n", "behind the wall"),
    ("common/base/naked.h", "-", "no #pragma once"),
    ("common/base/long.c", "\n" * 1001, "lines: over 1000"),
    ("gateway/text/string_util.c", "", "says nothing"),
    ("worker/worker.h", "", "says nothing"),
    ("worker/later.c", "/* TODO: think */\n", "says TODO"),
    ("worker/bare.c", "-", "does not open"),
]


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    head = "" if text == "-" else "/* What it is for. */\n" + ("#pragma once\n" if path.endswith(".h") else "")
    (root / path).write_text(head + (text if text != "-" else "int x;\n"), encoding="utf-8")


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in SOUND.items():
            write(root, path, text)
        found = list(problems(root))
        assert not found, f"a sound tree is refused: {found}"
        for path, text, wanted in UNSOUND:
            write(root, path, text)
            found = list(problems(root))
            assert any(p.startswith(path) and wanted in p for p in found), f"{path}: \"{wanted}\" is not found, only {found}"
            (root / path).unlink()


def main():
    self_test()
    root = pathlib.Path(__file__).resolve().parents[2]
    found = list(problems(root))
    for problem in found:
        print(problem)
    print(f"{len(list(source_files(root)))} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
