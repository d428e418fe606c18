#!/usr/bin/env python3
"""Writes a GGUF with the same model, its matrices as F16 (`convert`: or as another type): make_f16_model.py SOURCE.gguf TARGET.gguf"""
import sys

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize, quantize


def copy_fields(reader, writer, is_wanted):
    """The metadata whose keys are wanted."""
    for key, field in reader.fields.items():
        if is_wanted(key):
            kind = field.types[0]
            sub = field.types[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), kind, sub_type=sub)


def convert(source, target, kind=Type.F16):
    reader = GGUFReader(source)
    writer = GGUFWriter(str(target), reader.fields["general.architecture"].contents())
    copy_fields(reader, writer, lambda key: not key.startswith("GGUF.") and key not in ("general.architecture", "general.file_type"))
    for tensor in reader.tensors:
        shape = [int(n) for n in reversed(tensor.shape)]
        if tensor.tensor_type == Type.F32:
            writer.add_tensor(tensor.name, np.asarray(tensor.data).reshape(shape))
        else:
            dense = dequantize(np.asarray(tensor.data), tensor.tensor_type).reshape(shape)
            writer.add_tensor(tensor.name, quantize(dense, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    convert(sys.argv[1], sys.argv[2])
