/* x[position][...] throughout; every function does one thing of the model for all positions. */
#include "tests/worker/support/plain_llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct plain_model {
    lh_gguf *gguf;
    const char *bytes;
    const lh_model_config *c;
    uint32_t count;
} plain_model;

static double *doubles(size_t count) {
    double *values = calloc(count, sizeof *values);
    if (!values)
        abort();
    return values;
}

/* The elements of "blk.LAYER.name", or of "name" when layer is negative; NULL where there is no
 * such tensor. */
static double *load(const plain_model *m, int layer, const char *name) {
    char full[64];
    if (layer < 0)
        snprintf(full, sizeof full, "%s.weight", name);
    else
        snprintf(full, sizeof full, "blk.%d.%s.weight", layer, name);
    const lh_gguf_tensor *tensor = lh_gguf_tensor_find(m->gguf, full);
    if (!tensor)
        return NULL;
    if (tensor->type != LH_DTYPE_F32)
        abort();
    size_t count = tensor->shape[0] * tensor->shape[1];
    double *values = doubles(count);
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, m->bytes + tensor->offset + i * sizeof value, sizeof value);
        values[i] = (double)value;
    }
    return values;
}

static double *norm(const plain_model *m, const double *x, int layer, const char *name) {
    uint32_t width = m->c->width;
    double *gain = load(m, layer, name), *y = doubles((size_t)m->count * width);
    for (uint32_t t = 0; t < m->count; t++) {
        double sum = 0;
        for (uint32_t i = 0; i < width; i++)
            sum += x[t * width + i] * x[t * width + i];
        double rms = sqrt(sum / width + (double)m->c->rms_epsilon);
        for (uint32_t i = 0; i < width; i++)
            y[t * width + i] = x[t * width + i] / rms * gain[i];
    }
    free(gain);
    return y;
}

static double *times(const plain_model *m, const double *x, uint32_t inputs, uint32_t outputs,
                     int layer, const char *name) {
    double *w = load(m, layer, name), *y = doubles((size_t)m->count * outputs);
    for (uint32_t t = 0; t < m->count; t++) {
        for (uint32_t o = 0; o < outputs; o++)
            for (uint32_t i = 0; i < inputs; i++)
                y[t * outputs + o] += x[t * inputs + i] * w[(size_t)o * inputs + i];
    }
    free(w);
    return y;
}

static void rotate(const plain_model *m, double *x, uint32_t heads) {
    const lh_rope_scaling *rope = &m->c->rope[LH_LAYER_FULL];
    double *factors = load(m, -1, "rope_freqs");
    for (uint32_t t = 0; t < m->count; t++) {
        for (uint32_t h = 0; h < heads; h++) {
            double *head = x + ((size_t)t * heads + h) * m->c->head_dim;
            for (uint32_t i = 0; i < m->c->rope_dims / 2; i++) {
                double angle = t / rope->factor * pow(rope->base, -2.0 * i / m->c->rope_dims);
                angle /= factors ? factors[i] : 1;
                double a = head[2 * i], b = head[2 * i + 1];
                head[2 * i] = a * cos(angle) - b * sin(angle);
                head[2 * i + 1] = a * sin(angle) + b * cos(angle);
            }
        }
    }
    free(factors);
}

static void attend_one(const plain_model *m, const double *q, const double *k, const double *v,
                       uint32_t keys, uint32_t stride, double *y) {
    uint32_t dim = m->c->head_dim;
    double *p = doubles(keys), sum = 0, max = -HUGE_VAL;
    for (uint32_t s = 0; s < keys; s++) {
        for (uint32_t i = 0; i < dim; i++)
            p[s] += q[i] * k[(size_t)s * stride + i];
        p[s] /= sqrt(dim);
        max = fmax(max, p[s]);
    }
    for (uint32_t s = 0; s < keys; s++) {
        p[s] = exp(p[s] - max);
        sum += p[s];
    }
    for (uint32_t s = 0; s < keys; s++)
        for (uint32_t i = 0; i < dim; i++)
            y[i] += p[s] / sum * v[(size_t)s * stride + i];
    free(p);
}

static double *attend(const plain_model *m, const double *q, const double *k, const double *v) {
    uint32_t dim = m->c->head_dim, group = m->c->heads / m->c->kv_heads,
             stride = m->c->kv_heads * dim;
    double *y = doubles((size_t)m->count * m->c->heads * dim);
    for (uint32_t t = 0; t < m->count; t++) {
        for (uint32_t h = 0; h < m->c->heads; h++) {
            size_t row = ((size_t)t * m->c->heads + h) * dim, shared = (size_t)(h / group) * dim;
            attend_one(m, q + row, k + shared, v + shared, t + 1, stride, y + row);
        }
    }
    return y;
}

static void add(double *x, const double *y, size_t count) {
    for (size_t i = 0; i < count; i++)
        x[i] += y[i];
}

static void attention_block(const plain_model *m, double *x, int layer) {
    const lh_model_config *c = m->c;
    uint32_t queries = c->heads * c->head_dim, keys = c->kv_heads * c->head_dim;
    double *n = norm(m, x, layer, "attn_norm");
    double *q = times(m, n, c->width, queries, layer, "attn_q");
    double *k = times(m, n, c->width, keys, layer, "attn_k");
    double *v = times(m, n, c->width, keys, layer, "attn_v");
    rotate(m, q, c->heads);
    rotate(m, k, c->kv_heads);
    double *a = attend(m, q, k, v), *o = times(m, a, queries, c->width, layer, "attn_output");
    add(x, o, (size_t)m->count * c->width);
    free(o);
    free(a);
    free(v);
    free(k);
    free(q);
    free(n);
}

static void feed_forward_block(const plain_model *m, double *x, int layer) {
    uint32_t width = m->c->width, wide = m->c->feed_forward_width;
    double *n = norm(m, x, layer, "ffn_norm");
    double *gate = times(m, n, width, wide, layer, "ffn_gate"),
           *up = times(m, n, width, wide, layer, "ffn_up");
    for (size_t i = 0; i < (size_t)m->count * wide; i++)
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    double *down = times(m, gate, wide, width, layer, "ffn_down");
    add(x, down, (size_t)m->count * width);
    free(down);
    free(up);
    free(gate);
    free(n);
}

void plain_llama_logits(const void *file, size_t length, const lh_model_config *config,
                        const uint32_t *tokens, uint32_t count, double *logits) {
    plain_model m = {.bytes = file, .c = config, .count = count};
    if (lh_gguf_parse(file, length, length, &m.gguf, NULL) != LH_OK)
        abort();
    double *embedding = load(&m, -1, "token_embd"), *x = doubles((size_t)count * config->width);
    for (uint32_t t = 0; t < count; t++) {
        memcpy(x + (size_t)t * config->width, embedding + (size_t)tokens[t] * config->width,
               config->width * sizeof *x);
    }
    for (int layer = 0; layer < (int)config->layers; layer++) {
        attention_block(&m, x, layer);
        feed_forward_block(&m, x, layer);
    }
    double *n = norm(&m, x, -1, "output_norm");
    double *y = times(&m, n, config->width, config->vocabulary, -1,
                      lh_model_has(config, LH_TENSOR_HEAD) ? "output" : "token_embd");
    memcpy(logits, y, (size_t)count * config->vocabulary * sizeof *y);
    free(y);
    free(n);
    free(x);
    free(embedding);
    lh_gguf_destroy(m.gguf);
}
