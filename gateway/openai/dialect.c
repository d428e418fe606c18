/* Our own, and those that were handed in. */
#include "gateway/openai/dialect.h"

#include "gateway/openai/completions.h"
#include "gateway/openai/embeddings.h"

#include <assert.h>

const lh_openai_dialect *lh_openai_dialect_of(const lh_openai_service *service,
                                              lh_openai_endpoint endpoint) {
    const lh_openai_dialect *dialect = endpoint == LH_OPENAI_COMPLETIONS ? &lh_openai_completions
                                       : endpoint == LH_OPENAI_RESPONSES ? service->config.responses
                                       : endpoint == LH_OPENAI_MESSAGES  ? service->config.messages
                                       : endpoint == LH_OPENAI_EMBEDDINGS ? &lh_openai_embeddings
                                                                          : &lh_openai_chat;
    assert(dialect);
    return dialect;
}
