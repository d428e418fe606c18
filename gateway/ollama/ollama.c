/* Which parts make it up. */
#include "gateway/ollama/ollama.h"

#include "gateway/ollama/ollama_embeddings.h"
#include "gateway/ollama/ollama_models_json.h"
#include "gateway/ollama/ollama_text.h"

const lh_openai_ollama lh_ollama = {.chat = &lh_ollama_chat,
                                    .generate = &lh_ollama_generate,
                                    .embed = &lh_ollama_embed,
                                    .embeddings = &lh_ollama_embeddings,
                                    .tell = lh_ollama_tell};
