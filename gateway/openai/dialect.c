/* Our own, and those that were handed in. */
#include "gateway/openai/dialect.h"

#include "gateway/openai/completions.h"
#include "gateway/openai/embeddings.h"

const lh_openai_dialect *lh_openai_dialect_of(const lh_openai_service *service,
                                              lh_openai_endpoint endpoint) {
    const lh_openai_ollama *ollama = service->config.ollama;
    switch (endpoint) {
    case LH_OPENAI_COMPLETIONS:
        return &lh_openai_completions;
    case LH_OPENAI_RESPONSES:
        return service->config.responses;
    case LH_OPENAI_MESSAGES:
        return service->config.messages;
    case LH_OPENAI_EMBEDDINGS:
        return &lh_openai_embeddings;
    case LH_OPENAI_OLLAMA_CHAT:
        return ollama->chat;
    case LH_OPENAI_OLLAMA_GENERATE:
        return ollama->generate;
    case LH_OPENAI_OLLAMA_EMBED:
        return ollama->embed;
    case LH_OPENAI_OLLAMA_EMBEDDINGS:
        return ollama->embeddings;
    default:
        return &lh_openai_chat;
    }
}
