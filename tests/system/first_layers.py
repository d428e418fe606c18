"""The first layers of a model as a model of its own: it says nothing sensible, but does all that the whole one does, in less time. What a sanitizer
makes slow is tested with it, and what is compared in so many ways that the whole one would take long.

    tests/python tests/system/first_layers.py MODEL      makes the file, where it is not there yet, and prints its path"""

import os
import pathlib
import re
import struct
import sys
import tempfile

import gguf

from gguf_keys import layer_count
from gguf_parts import padding, record

LAYERS = 6
_LAYER = re.compile(r"blk\.(\d+)\.")
_FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".cache" / "first-layers"


def _is_kept(name, layers):
    found = _LAYER.match(name)
    return not found or int(found[1]) < layers


def write_first_layers(source, target, layers):
    reader = gguf.GGUFReader(source)
    tensors = [tensor for tensor in reader.tensors if _is_kept(tensor.name, layers)]
    count = next(field for name, field in reader.fields.items() if name.endswith(".block_count"))
    assert layers < int(count.parts[-1][0]), f"{source} has no more than {layers} layers"
    metadata = bytearray(reader.data[:reader.tensors[0].field.offset])
    struct.pack_into("<Q", metadata, 8, len(tensors))
    struct.pack_into("<I", metadata, count.offset + sum(part.nbytes for part in count.parts[:-1]), layers)
    offset = 0
    for tensor in tensors:
        metadata += record(tensor, offset)
        offset += int(tensor.n_bytes) + -int(tensor.n_bytes) % reader.alignment
    with open(target, "wb") as out:
        out.write(metadata + padding(len(metadata), reader.alignment))
        for tensor in tensors:
            data = bytes(reader.data[int(tensor.data_offset):int(tensor.data_offset) + int(tensor.n_bytes)])
            out.write(data + padding(len(data), reader.alignment))


def first_layers(model):
    """The path of the file with a model's first layers, which is made once; of one that has no more, its own."""
    model = pathlib.Path(model)
    if layer_count(model) <= LAYERS:
        return str(model)
    made = _FOLDER / model.name
    if not made.exists() or made.stat().st_mtime < model.stat().st_mtime:
        _FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=_FOLDER, delete=False) as aside:
            write_first_layers(model, aside.name, LAYERS)
        os.rename(aside.name, made)
    return str(made)


if __name__ == "__main__":
    print(first_layers(sys.argv[1]))
