"""Include direction, third-party walls and the few rules about files, over the tree: the drawing must not drift from the code.

Rooms and walls are STYLE's two tables ("The house"). Before it looks at the tree, the test plants one violation of each rule in a small
tree of its own and expects each to be found."""
import fnmatch
import os
import pathlib
import re
import sys
import tempfile

ROOMS = ("common", "gateway", "kernels", "worker")
LINES_MAX = 800

# The worker's rooms that know the network; all others are its compute side.
WORKER_NETWORK = ("worker/main.c", "worker/worker_settings.*", "worker/server/*", "worker/assignment/*", "worker/weights/*")
# What of common/ knows the network.
COMMON_NETWORK = ("common/h2_*", "common/tls_*", "common/socket_*", "common/address.*", "common/send_order.*",
                  "common/event_loop.*")

# What every room of the gateway stands on.
GATEWAY_GROUND = ("gateway/growing_array.h", "gateway/random_id.h", "gateway/text/*", "common/*")

# What every room of the worker stands on.
WORKER_GROUND = ("worker/thread_pool.h", "worker/slowdown.h", "kernels/kernels.h", "common/*")

# First row whose files match decides. (files, may include, but not)
ARROWS = [
    ("the gateway's text", ("gateway/text/*",), GATEWAY_GROUND, ()),
    ("the gateway's access", ("gateway/access/*",), ("gateway/access/*",) + GATEWAY_GROUND, ()),
    ("the gateway's HTTP server", ("gateway/http/*",), ("gateway/http/*",) + GATEWAY_GROUND, ()),
    ("the gateway's traces", ("gateway/trace/*",), ("gateway/trace/*", "gateway/access/api_key.h", "worker/api/*") + GATEWAY_GROUND, ()),
    ("the gateway's scheduler", ("gateway/schedule/*",), ("gateway/schedule/*", "gateway/trace/trace_step.h", "worker/api/*") + GATEWAY_GROUND,
     ()),
    ("the gateway's fleet", ("gateway/fleet/*",), ("gateway/fleet/*", "gateway/schedule/*", "gateway/http/json_*", "worker/api/*") +
     GATEWAY_GROUND, ()),
    ("the gateway's engine", ("gateway/engine/*",), ("gateway/*", "worker/api/*", "common/*"), ("gateway/openai/*",)),
    ("the gateway", ("gateway/*",), ("gateway/*", "worker/api/*", "common/*"), ()),
    ("the worker's api", ("worker/api/*",), ("worker/api/*", "common/*"), ()),
    ("the worker's models", ("worker/model/*",), ("worker/model/*",) + WORKER_GROUND, COMMON_NETWORK),
    ("the worker's stage", ("worker/stage/*",), ("worker/stage/*", "worker/model/*") + WORKER_GROUND, COMMON_NETWORK),
    ("the worker's pipeline", ("worker/pipeline/*",), ("worker/pipeline/*", "worker/stage/*") + WORKER_GROUND, COMMON_NETWORK),
    ("the worker's weights", ("worker/weights/*",), ("worker/weights/*", "worker/model/*") + WORKER_GROUND, ()),
    ("the worker's server", ("worker/server/*",), ("worker/server/*", "worker/pipeline/*", "worker/stage/*", "worker/api/*") + WORKER_GROUND,
     ()),
    ("the worker's network side", WORKER_NETWORK, ("worker/*", "kernels/kernels.h", "common/*"), ()),
    ("the worker's ground", ("worker/*",), WORKER_GROUND, COMMON_NETWORK),
    ("kernels", ("kernels/*",), ("kernels/*", "common/status.h", "common/dtype.h"), ()),
    ("common", ("common/*",), ("common/*",), ()),
]

# Header pattern -> the only files that may include it.
WALLS = {
    "microhttpd.h": ("gateway/http/http_*",),
    "jansson.h": ("gateway/*_json.[ch]", "gateway/http/*", "gateway/openai/*", 
                  "worker/assignment/*", "worker/weights/weight_digests.c",
                  "worker/api/step_answer.c", "worker/api/*_json.[ch]", "common/json*"),
    "curl/*": ("gateway/trace/trace_fetch.c", "worker/weights/weight_fetch.c", "worker/assignment/*"),
    "nghttp2/*": ("common/h2_session*",),
    "openssl/*": ("common/tls_*", "common/digest.c", "common/h2_*"),
    "uv.h": ("common/h2_*", "common/tls_*", "common/socket_*", "common/address.*", "common/event_loop.*", "worker/main.c",
             "worker/server/*", "worker/assignment/*", "worker/api/worker_client*",
             "gateway/main.c", "gateway/engine/engine*", "gateway/fleet/fleet_*"),
    "pcre2.h": ("gateway/text/pre_tokenizer.c",),
    "uninorm.h": ("gateway/text/nfc.c",),
    "xxhash.h": ("worker/stage/sampler.c", "gateway/text/vocabulary.c", "gateway/schedule/prefix_index.c"),
    "sys/socket.h": ("common/socket_*", "common/address.*", "common/h2_*", "common/tls_*", "gateway/http/http_*"),
    "arpa/*": ("common/address.*", "gateway/http/http_*"),
    "netinet/*": ("common/socket_*", "common/address.*", "common/h2_*", "common/tls_*", "gateway/http/http_*"),
    "*mmintrin.h": ("kernels/avx2/*", "kernels/avx512/*"),
    "immintrin.h": ("kernels/avx2/*", "kernels/avx512/*"),
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


def arrow_problem(root, path, header):
    """Why `path` may not include the file `header` of ours, or None."""
    if not (root / header).is_file():
        return f'includes "{header}", which is no file: spell it from the root of the tree'
    if path.split("/")[0] == "tests":
        return None
    for name, files, allowed, forbidden in ARROWS:
        if matches(path, files):
            if not matches(header, allowed) or (matches(header, forbidden) and not matches(path, forbidden)):
                return f'includes "{header}": that arrow is not in the house ({name} may include {", ".join(allowed)}' + (
                    f'; not {", ".join(forbidden)})' if forbidden else ")")
            return None
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
                if name.endswith((".c", ".h", ".cu", ".cuh")):
                    yield (pathlib.Path(folder) / name).relative_to(root).as_posix()


def problems(root):
    for path in sorted(source_files(root)):
        text = (root / path).read_text(encoding="utf-8")
        for problem in file_problems(path, text):
            yield f"{path}: {problem}"
        for include in INCLUDE.finditer(text):
            line = text.count("\n", 0, include.start()) + 1
            if include[1] == '"':
                problem = arrow_problem(root, path, include[2])
            else:
                problem = wall_problem(path, include[2])
            if problem:
                yield f"{path}:{line}: {problem}"


SOUND = {
    "common/status.h": "", "common/h2_session.c": "#include <nghttp2/nghttp2.h>\n#include <stdio.h>\n", "common/h2_connection.h": "",
    "kernels/kernels.h": '#include "common/status.h"\n', "kernels/avx2/dot.c": '#include "kernels/kernels.h"\n#include <immintrin.h>\n',
    "worker/stage/stage.h": '#include "kernels/kernels.h"\n', "worker/server/server.h": '#include "worker/api/step.h"\n#include "worker/stage/stage.h"\n',
    "worker/server/server.c": '#include "worker/server/server.h"\n#include "common/h2_connection.h"\n', "worker/api/step.h": "",
    "gateway/fleet/chain.h": '#include "worker/api/step.h"\n', "tests/worker/test_stage.c": '#include "worker/stage/stage.h"\n#include <uv.h>\n',
}
# path, text, what the message must say
UNSOUND = [
    ("gateway/plan.c", '#include "worker/stage/stage.h"\n', "that arrow"),
    ("gateway/plan.h", '#include "kernels/kernels.h"\n', "that arrow"),
    ("worker/stage/layer.c", '#include "worker/api/step.h"\n', "that arrow"),
    ("worker/stage/layer.h", '#include "worker/server/server.h"\n', "that arrow"),
    ("worker/model/model.c", '#include "common/h2_connection.h"\n', "that arrow"),
    ("worker/model/layout.h", '#include "worker/stage/stage.h"\n', "that arrow"),
    ("worker/pipeline/order.c", '#include "worker/server/server.h"\n', "that arrow"),
    ("worker/model/model.h", '#include "gateway/fleet/chain.h"\n', "that arrow"),
    ("worker/api/client.c", '#include "worker/stage/stage.h"\n', "that arrow"),
    ("worker/stage/rows.c", '#include "kernels/avx2/dot.c"\n', "that arrow"),
    ("kernels/rope.c", '#include "common/h2_connection.h"\n', "that arrow"),
    ("common/log.c", '#include "kernels/kernels.h"\n', "that arrow"),
    ("worker/stage/rope.c", '#include "kernels.h"\n', "from the root"),
    ("gateway/schedule/scheduler.c", "#include <jansson.h>\n", "behind the wall"),
    ("gateway/schedule/plan.c", '#include "gateway/fleet/chain.h"\n', "that arrow"),
    ("common/crc.c", "  #  include <nmmintrin.h>\n", "behind the wall"),
    ("worker/stage/stage.c", "#include <uv.h>\n", "behind the wall"),
    ("common/naked.h", "-", "no #pragma once"),
    ("common/long.c", "\n" * 801, "lines: over 800"),
    ("gateway/string_util.c", "", "says nothing"),
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
