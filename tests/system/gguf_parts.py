"""A GGUF file cut into several, as llama.cpp's gguf-split does it: the metadata in the first one, split.* in each."""

import os
import struct

import gguf

_U16, _I32 = 2, 5


def _text(text):
    return struct.pack("<Q", len(text)) + text.encode()


def _split_keys(number, count, tensors):
    return (_text("split.no") + struct.pack("<IH", _U16, number) + _text("split.count") + struct.pack("<IH", _U16, count)
            + _text("split.tensors.count") + struct.pack("<Ii", _I32, tensors))


def record(tensor, offset):
    shape = [int(size) for size in tensor.shape]
    return (_text(tensor.name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", int(tensor.tensor_type), offset))


def padding(length, alignment):
    return b"\0" * (-length % alignment)


def split(source, folder, stem, count):
    """The paths of `count` parts, STEM-00001-of-0000N.gguf. The first has no tensors: gguf-split --no-tensor-first-split."""
    reader = gguf.GGUFReader(source)
    tensors, paths = reader.tensors, []
    metadata = bytes(reader.data[24:tensors[0].field.offset])
    keys = len([field for field in reader.fields.values() if not field.name.startswith("GGUF.")])
    for number in range(count):
        own = tensors[len(tensors) * (number - 1) // (count - 1):len(tensors) * number // (count - 1)] if number else []
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(own), 3 + (keys if number == 0 else 0))
        head += (metadata if number == 0 else b"") + _split_keys(number, count, len(tensors))
        offset = 0
        for tensor in own:
            head += record(tensor, offset)
            offset += int(tensor.n_bytes) + -int(tensor.n_bytes) % 32
        paths.append(os.path.join(folder, f"{stem}-{number + 1:05}-of-{count:05}.gguf"))
        with open(paths[-1], "wb") as out:
            out.write(head + padding(len(head), 32))
            for tensor in own:
                start = int(tensor.data_offset)
                data = bytes(reader.data[start:start + int(tensor.n_bytes)])
                out.write(data + padding(len(data), 32))
    return paths
