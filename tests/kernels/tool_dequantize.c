/* dequantize TYPE OUTPUTS INPUTS: a matrix in GGML's layout from standard input, packed, and each
 * of its rows back as floats on standard output. test_dequantize.py compares them with gguf's. */
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lh_dtype_info *type_named(const char *name) {
    for (uint32_t number = 0; number < 64; number++) {
        const lh_dtype_info *info = lh_dtype_lookup(number);
        if (info && strcmp(info->name, name) == 0)
            return info;
    }
    return NULL;
}

int main(int argc, char **argv) {
    const lh_dtype_info *info = argc == 4 ? type_named(argv[1]) : NULL;
    if (!info) {
        fprintf(stderr, "usage: dequantize TYPE OUTPUTS INPUTS\n");
        return 2;
    }
    lh_matrix matrix = {.dtype = info->dtype,
                        .outputs = (uint32_t)strtoul(argv[2], NULL, 10),
                        .inputs = (uint32_t)strtoul(argv[3], NULL, 10)};
    size_t packed = lh_matrix_bytes(matrix.dtype, matrix.outputs, matrix.inputs);
    size_t bytes = lh_dtype_bytes(info, (uint64_t)matrix.outputs * matrix.inputs);
    void *source = malloc(bytes + 1);
    float *row = malloc(matrix.inputs * sizeof *row);
    matrix.data = packed > 0 ? aligned_alloc(64, packed) : NULL;
    int result = 1;
    if (source && row && matrix.data && fread(source, 1, bytes + 1, stdin) == bytes) {
        lh_matrix_pack(&matrix, source, (lh_span){0, matrix.outputs});
        for (uint32_t o = 0; o < matrix.outputs; o++) {
            lh_matrix_row(&matrix, o, row);
            fwrite(row, sizeof *row, matrix.inputs, stdout);
        }
        result = fflush(stdout) != 0;
    } else {
        fprintf(stderr, "dequantize: no such matrix, out of memory, or not %zu bytes of it\n",
                bytes);
    }
    free(matrix.data);
    free(row);
    free(source);
    return result;
}
