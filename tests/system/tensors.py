"""Which bytes of a GGUF file a stage needs, by another reader than ours."""

import re

import gguf


def stage_bytes(model, first, last):
    """(tensors of layers [first, last) with embedding and head where they belong, header)."""
    reader = gguf.GGUFReader(model)
    names = {tensor.name: int(tensor.n_bytes) for tensor in reader.tensors}
    layers = 1 + max(int(match[1]) for match in map(re.compile(r"blk\.(\d+)\.").match, names) if match)
    wanted = {name for name in names if (match := re.match(r"blk\.(\d+)\.", name)) and first <= int(match[1]) < last}
    if first == 0:
        wanted.add("token_embd.weight")
    if last == layers:
        wanted |= {"output_norm.weight", "output.weight" if "output.weight" in names else "token_embd.weight"}
    return sum(names[name] for name in wanted), int(reader.data_offset)
