"""SmolLM2 made wider: the same function in matrices whose rows are whole blocks of any type. Its width of 576 is 2 1/4 blocks of 256, so that its
own files have K types in few places.

Every dimension is rounded up to a multiple of 256, with zeros: 576 columns become 768, 3 of 9 heads with keys and values of their own become 4
of 12. A norm then divides by the mean over more columns; its gain and epsilon make up for that."""
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader, GGUFWriter
from gguf.quants import dequantize

from make_f16_model import copy_fields
from quantizer import quantize

BLOCK = 256
CHANGED = ("embedding_length", "attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon")


def whole(size):
    return -(-size // BLOCK) * BLOCK


class WideModel:
    def __init__(self, path):
        self.reader = GGUFReader(path)
        get = lambda key: self.reader.fields[f"llama.{key}"].contents()
        self.width, self.heads, self.kv_heads, self.epsilon = (get(key) for key in CHANGED)
        self.head_dim = self.width // self.heads
        self.share = self.width / whole(self.width)

    def matrices(self):
        return [tensor.name for tensor in self.reader.tensors if tensor.tensor_type != Type.F32]

    def values(self, tensor):
        data = np.asarray(tensor.data)
        if tensor.tensor_type == Type.F32:
            return np.pad(data * np.float32(np.sqrt(self.share)), (0, whole(data.size) - data.size))
        dense = dequantize(data, tensor.tensor_type)
        return np.pad(dense, [(0, whole(size) - size) for size in dense.shape])

    def write(self, path, types):
        """types: tensor's name -> its type's name, for the matrices. Without a vocabulary: token ids are all that is asked with."""
        writer = GGUFWriter(str(path), "llama")
        changed = {f"llama.{key}" for key in CHANGED}
        copy_fields(self.reader, writer, lambda key: key.startswith("llama.") and key not in changed)
        writer.add_embedding_length(whole(self.width))
        writer.add_head_count(whole(self.width) // self.head_dim)
        writer.add_head_count_kv(whole(self.kv_heads * self.head_dim) // self.head_dim)
        writer.add_layer_norm_rms_eps(self.epsilon * self.share)
        for tensor in self.reader.tensors:
            values, name = self.values(tensor), types.get(tensor.name, "F32")
            writer.add_tensor(tensor.name, quantize(values, name), raw_dtype=None if name in ("F32", "F16") else Type[name])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
