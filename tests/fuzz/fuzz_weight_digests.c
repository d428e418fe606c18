/* The document of the tensors' digests, from a gateway that is not to be trusted: what is taken is
 * of tensors that the model has, and its addresses end within their places. */
#include "tests/support/tiny_llama.h"
#include "worker/weights/weight_digests.h"

#include <stdlib.h>
#include <string.h>

static void need(bool condition) {
    if (!condition)
        abort();
}

/* Made once; its names lie in the file's bytes. */
static lh_gguf *model(void) {
    static uint8_t *bytes;
    static lh_gguf *gguf;
    if (gguf)
        return gguf;
    tiny_llama tiny = tiny_llama_default();
    tiny.layers = 1;
    size_t length;
    bytes = tiny_llama_bytes(&tiny, &length);
    need(lh_gguf_parse(bytes, length, length, &gguf, NULL) == LH_OK);
    return gguf;
}

static void check(const lh_block_list *blocks) {
    need(memchr(blocks->url, 0, sizeof blocks->url));
    need(memchr(blocks->pieces_url, 0, sizeof blocks->pieces_url));
    need(blocks->rows > 0 || (blocks->url[0] == 0 && blocks->pieces_url[0] == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const lh_gguf *gguf = model();
    lh_tensor_digest *digests = calloc(lh_gguf_tensor_count(gguf), sizeof *digests);
    lh_block_list blocks;
    lh_error error;
    need(digests);
    if (lh_weight_digests_parse((const char *)data, size, gguf, digests, &blocks, &error) == LH_OK)
        check(&blocks);
    free(digests);
    return 0;
}
