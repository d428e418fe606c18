/* Weights of a GGUF file whose bytes lie in memory, for stages: nothing is fetched. Thread: any. */
#pragma once

#include "worker/compute/tensor_source.h"

/* file: the whole file; outlives whoever reads of the source. */
lh_weight_source mapped_weights(const uint8_t *file);
