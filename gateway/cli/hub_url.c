/* As Hugging Face's own tools choose it. */
#include "gateway/cli/hub_url.h"

#include <stdlib.h>

const char *lh_hub_url_choose(const char *given) {
    const char *endpoint = getenv("HF_ENDPOINT");
    if (given[0])
        return given;
    return endpoint && endpoint[0] ? endpoint : "https://huggingface.co";
}
