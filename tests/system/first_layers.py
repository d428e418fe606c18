"""The first layers of a model as a model of its own: it says nothing sensible, but does all that the whole one does, in less time. What a sanitizer
makes slow is tested with it.

    tests/python tests/system/first_layers.py SOURCE TARGET LAYERS"""

import re
import struct
import sys

import gguf

from gguf_parts import padding, record

_LAYER = re.compile(r"blk\.(\d+)\.")


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


if __name__ == "__main__":
    write_first_layers(sys.argv[1], sys.argv[2], int(sys.argv[3]))
